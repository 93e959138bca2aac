"""Objects in any S3 endpoint: the only state of the functions that does not live in Kubernetes.

Everything above this module sees bytes under keys and two errors: try again later (`StorageUnavailable`), or
somebody has to change something first (`StorageError`). boto3 is imported at the first request, because most
functions never touch storage and the import costs 0.4 s and 40 MB.

Settings: the group `shared.settings.STORAGE`. Beside them counts what boto3 itself finds in the process's environment:
`AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, credentials of a role or a file.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from shared.settings import SETTINGS, STORAGE

_T = TypeVar("_T")

DEFAULT_BUCKET = "capi-functions"
CONNECT_TIMEOUT = 2.0  # seconds
READ_TIMEOUT = 10.0  # seconds without a byte
ATTEMPTS = 2  # in all, for a hiccup; the caller's own retry is longer and survives a restart
CONNECTIONS = 16
UNREACHABLE = 3.0  # seconds for which a store that did not answer at all is not asked again

_ABSENT = {"NoSuchKey", "NoSuchBucket", "404"}
_TRANSIENT = {"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestTimeout"}
_TRANSIENT_STATUS = {408, 409, 429}
_DENIED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"}
_OURS_ALREADY = {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}


_CREDENTIALS = f"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys for this bucket ({STORAGE.where})"


class StorageError(Exception):
    """The object store refused; a retry alone does not help.

    The message names bucket, key and endpoint, never credentials.
    """


class StorageUnavailable(StorageError):
    """The object store cannot be reached, is overloaded or broken for the moment: try again later."""


class _Absent(StorageError):
    """No such object, or no such bucket."""


@dataclass(frozen=True)
class StorageCredentials:
    """Region and credentials; what is empty is left to boto3."""

    region: str = ""
    key: str = ""
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    authority: str = ""
    """Path of a file with the endpoint's CA."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, str] = SETTINGS) -> StorageCredentials:
        return cls(
            settings.get("AWS_DEFAULT_REGION") or settings.get("AWS_REGION") or "",
            settings.get("AWS_ACCESS_KEY_ID", ""),
            settings.get("AWS_SECRET_ACCESS_KEY", ""),
            settings.get("AWS_SESSION_TOKEN", ""),
            settings.get("AWS_CA_BUNDLE", ""),
        )


class StoredObject(NamedTuple):
    key: str
    modified: datetime
    """When it was last written."""


class ObjectStore:
    """One bucket. Cheap to create (no I/O, no boto3), safe to share between threads.

    Every method raises `StorageUnavailable` or `StorageError`.
    """

    def __init__(self, bucket: str, endpoint: str | None = None, credentials: StorageCredentials | None = None) -> None:
        self.bucket = bucket
        self.endpoint = _without_userinfo(endpoint) if endpoint else None
        self._credentials = credentials
        self._lock = threading.Lock()
        self._client: Any = None
        self._unreachable: tuple[float, str] = (float("-inf"), "")
        """Until when the store is taken for unreachable, and why."""

    @classmethod
    def from_env(cls, env: Mapping[str, str] = SETTINGS) -> ObjectStore:
        """The store that the settings describe: the same one, with its connections, until they change."""
        endpoints = (env.get(name) for name in ("S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
        bucket = env.get("CAPI_FUNCTIONS_BUCKET") or DEFAULT_BUCKET
        return _store(bucket, next(filter(None, endpoints), None), StorageCredentials.from_settings(env))

    def get(self, key: str) -> bytes | None:
        """The object's bytes; None when the object or the whole bucket is absent."""
        try:
            return self._request("read", key, lambda s3: _body(s3.get_object(Bucket=self.bucket, Key=key)))
        except _Absent:
            return None

    def put(self, key: str, data: bytes, *, if_absent: bool) -> bool:
        """Write an object; with `if_absent` only when there is none. False: there was one, and it stays."""
        condition = {"IfNoneMatch": "*"} if if_absent else {}
        return self._request("write", key, lambda s3: _written(s3, Bucket=self.bucket, Key=key, Body=data, **condition))

    def exists(self, key: str) -> bool:
        """Whether the object is there; False also for an absent bucket."""
        try:
            self._request("look for", key, lambda s3: s3.head_object(Bucket=self.bucket, Key=key))
        except _Absent:
            return False
        return True

    def modified(self, key: str) -> datetime | None:
        """When an object was last written; None when it is absent."""
        try:
            found = self._request("look for", key, lambda s3: s3.head_object(Bucket=self.bucket, Key=key))
        except _Absent:
            return None
        written: datetime = found["LastModified"]
        return written

    def list(self, prefix: str = "") -> Sequence[str]:
        """All keys that begin with `prefix`, in order; empty for an absent bucket."""
        return tuple(entry.key for entry in self.list_objects(prefix))

    def list_objects(self, prefix: str = "") -> Sequence[StoredObject]:
        """Like `list`, with more than the keys."""
        try:
            return self._request("list", f"{prefix}*", lambda s3: _objects(s3, Bucket=self.bucket, Prefix=prefix))
        except _Absent:
            return ()

    def delete(self, key: str) -> None:
        """Remove an object; removing one that is absent is fine."""
        with suppress(_Absent):
            self._request("delete", key, lambda s3: s3.delete_object(Bucket=self.bucket, Key=key))

    def ensure_bucket(self) -> None:
        """Create the bucket unless it is there."""
        with suppress(_Absent):
            self._request("find", None, lambda s3: s3.head_bucket(Bucket=self.bucket))
            return
        self._request("create", None, lambda s3: _create_bucket(s3, self.bucket))

    def _connected(self) -> Any:
        with self._lock:  # clients may be shared between threads, making one may not
            if self._client is None:
                self._client = _client(self.endpoint, self._credentials or StorageCredentials.from_settings())
            return self._client

    def _request(self, verb: str, key: str | None, request: Callable[[Any], _T]) -> _T:
        """Run one request on the client. Raises `_Absent` and our public errors only."""
        from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError

        what = f"bucket {self.bucket!r}" if key is None else f"{key!r} in bucket {self.bucket!r}"
        failed = f"cannot {verb} {what} at {self.endpoint or 'AWS S3'}"
        until, why = self._unreachable
        if time.monotonic() < until:  # each would take the whole timeout, and a thread for as long
            raise StorageUnavailable(f"{failed}: {why}")
        try:
            return request(self._connected())
        except ClientError as error:
            kind, reason = _judge_answer(error.response)
        except (BotoCoreError, ValueError) as error:  # ValueError: the endpoint is not a URL
            kind, reason = _judge_failure(error)
            if isinstance(error, ConnectTimeoutError):
                self._unreachable = (time.monotonic() + UNREACHABLE, reason)
        raise kind(f"{failed}: {reason}")


@lru_cache(maxsize=8)
def _store(bucket: str, endpoint: str | None, credentials: StorageCredentials) -> ObjectStore:
    return ObjectStore(bucket, endpoint, credentials)


def _client(endpoint: str | None, credentials: StorageCredentials) -> Any:
    """A client with explicit limits, path-style addresses and no optional checksums, as every S3 clone likes it."""
    import boto3.session
    from botocore.config import Config

    session = boto3.session.Session()
    return session.client(
        "s3",
        endpoint_url=endpoint,
        region_name=credentials.region or session.region_name or "us-east-1",
        aws_access_key_id=credentials.key or None,
        aws_secret_access_key=credentials.secret or None,
        aws_session_token=credentials.token or None,
        verify=credentials.authority or None,
        config=Config(
            connect_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=CONNECTIONS,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={"addressing_style": "path" if endpoint else "auto"},
        ),
    )


def _body(answer: Mapping[str, Any]) -> bytes:
    with closing(answer["Body"]) as stream:  # its own context manager yields the raw stream, with raw errors
        data: bytes = stream.read()
    return data


def _written(s3: Any, **request: Any) -> bool:
    from botocore.exceptions import ClientError

    try:
        s3.put_object(**request)
    except ClientError as error:
        if _code(error) == "PreconditionFailed":
            return False
        raise
    return True


def _objects(s3: Any, **request: Any) -> Sequence[StoredObject]:
    pages = s3.get_paginator("list_objects_v2").paginate(**request)
    return tuple(
        StoredObject(found["Key"], found["LastModified"]) for page in pages for found in page.get("Contents", ())
    )


def _create_bucket(s3: Any, bucket: str) -> None:
    from botocore.exceptions import ClientError

    region = s3.meta.region_name
    place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    try:
        s3.create_bucket(Bucket=bucket, **place)
    except ClientError as error:
        if _code(error) not in _OURS_ALREADY:  # somebody was faster; if it is not ours, the first write says so
            raise


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _judge_answer(response: Mapping[str, Any]) -> tuple[type[StorageError], str]:
    """What an error answer means for the caller, and why. 501 is no hiccup but an operation that is lacking."""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = str(response.get("Error", {}).get("Code", "")) or "no error code"
    if code in _ABSENT:
        return _Absent, f"{code} (HTTP {status})"
    transient = code in _TRANSIENT or status in _TRANSIENT_STATUS or (status >= 500 and status != 501)
    hint = f": {_CREDENTIALS}" if code in _DENIED or status == 403 else ""
    return (StorageUnavailable if transient else StorageError), f"{code} (HTTP {status}){hint}"


def _judge_failure(error: Exception) -> tuple[type[StorageError], str]:
    """The same for a request without an answer. Of the error only its name: its text may quote the request."""
    from botocore.exceptions import (
        ConnectionError,
        EndpointConnectionError,
        HTTPClientError,
        IncompleteReadError,
        NoCredentialsError,
        PartialCredentialsError,
        SSLError,
    )

    transient = isinstance(error, (ConnectionError, HTTPClientError, IncompleteReadError))
    transient = transient and not isinstance(error, SSLError)  # a certificate does not mend itself
    hint = ""
    if isinstance(error, (NoCredentialsError, PartialCredentialsError)):
        hint = f": {_CREDENTIALS}"
    elif not transient or isinstance(error, EndpointConnectionError):
        hint = f": check S3_ENDPOINT_URL ({STORAGE.where})"
    return (StorageUnavailable if transient else StorageError), f"{type(error).__name__}{hint}"


def _without_userinfo(url: str) -> str:
    """S3 does not use a user name and password in the address; dropped, they cannot reach a log.

    Nor where a slash in them, which should have been escaped, makes part of them look like a path.
    """
    return re.sub(r"//.*@", "//", url)
