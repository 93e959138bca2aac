"""Stores objects at an S3 endpoint: the only state of the functions outside Kubernetes.

Callers see bytes under keys and two errors: `StorageUnavailable`, where a retry may help, and `StorageError`, where a
user has to change something first. boto3 is imported at the first request, as most functions never use storage and
the import costs 0.4 s and 40 MB.

Settings: the group `shared.settings.STORAGE`. In addition, boto3 reads its own settings from the process's environment:
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
ATTEMPTS = 2  # a first try and one retry; after a longer outage the event is delivered again
CONNECTIONS = 16
UNREACHABLE_PAUSE = 3.0  # seconds without requests after a connection timed out

_ABSENT = {"NoSuchKey", "NoSuchBucket", "404"}
_TRANSIENT = {"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestTimeout"}
_TRANSIENT_STATUS = {408, 409, 429}
_DENIED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"}
_OURS_ALREADY = {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}


_CREDENTIALS = f"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys for this bucket ({STORAGE.where})"


class StorageError(Exception):
    """A request failed, and a retry cannot help.

    The message names bucket, key and endpoint, never credentials.
    """


class StorageUnavailable(StorageError):
    """A request failed for a transient reason: the object store is unreachable, overloaded or has an internal error."""


class _Absent(StorageError):
    """The object or the bucket does not exist."""


@dataclass(frozen=True)
class StorageCredentials:
    """Region, credentials and CA for the object store; for empty fields boto3 uses its own defaults."""

    region: str = ""
    key: str = ""
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    ca: str = ""
    """Path of a file with the endpoint's CA."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, str] = SETTINGS) -> StorageCredentials:
        """Returns the credentials in `settings`."""
        return cls(
            settings.get("AWS_DEFAULT_REGION") or settings.get("AWS_REGION") or "",
            settings.get("AWS_ACCESS_KEY_ID", ""),
            settings.get("AWS_SECRET_ACCESS_KEY", ""),
            settings.get("AWS_SESSION_TOKEN", ""),
            settings.get("AWS_CA_BUNDLE", ""),
        )


class StoredObject(NamedTuple):
    """The key of an object, and the time of its last write."""

    key: str
    modified: datetime


class ObjectStore:
    """One bucket. Cheap to create (no I/O, no boto3), safe to share between threads.

    Every method raises `StorageUnavailable` or `StorageError`.

    Args:
        bucket: Its name.
        endpoint: The URL of the S3 endpoint; by default that of AWS.
        credentials: By default they are read from the settings at the first request.
    """

    def __init__(self, bucket: str, endpoint: str | None = None, credentials: StorageCredentials | None = None) -> None:
        self.bucket = bucket
        self.endpoint = _without_userinfo(endpoint) if endpoint else None
        self._credentials = credentials
        self._lock = threading.Lock()
        self._client: Any = None
        self._unreachable: tuple[float, str] = (float("-inf"), "")
        """The time until which requests fail without being sent, and the reason."""

    @classmethod
    def from_env(cls, env: Mapping[str, str] = SETTINGS) -> ObjectStore:
        """Returns the store of the settings: the same one, with its connections, until they change."""
        endpoints = (env.get(name) for name in ("S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
        bucket = env.get("CAPI_FUNCTIONS_BUCKET") or DEFAULT_BUCKET
        return _store(bucket, next(filter(None, endpoints), None), StorageCredentials.from_settings(env))

    def get(self, key: str) -> bytes | None:
        """Returns the content of an object; None if the object or the bucket does not exist."""
        try:
            return self._request("read", key, lambda s3: _body(s3.get_object(Bucket=self.bucket, Key=key)))
        except _Absent:
            return None

    def put(self, key: str, data: bytes, *, if_absent: bool) -> bool:
        """Writes an object. With `if_absent` an existing object stays unchanged, and the result is False."""
        condition = {"IfNoneMatch": "*"} if if_absent else {}
        return self._request("write", key, lambda s3: _written(s3, Bucket=self.bucket, Key=key, Body=data, **condition))

    def exists(self, key: str) -> bool:
        """Returns whether the object exists."""
        try:
            self._request("look for", key, lambda s3: s3.head_object(Bucket=self.bucket, Key=key))
        except _Absent:
            return False
        return True

    def modified(self, key: str) -> datetime | None:
        """Returns the time of the last write of an object; None if it does not exist."""
        try:
            found = self._request("look for", key, lambda s3: s3.head_object(Bucket=self.bucket, Key=key))
        except _Absent:
            return None
        written: datetime = found["LastModified"]
        return written

    def list(self, prefix: str = "") -> Sequence[str]:
        """Returns all keys with this prefix, in order; none if the bucket does not exist."""
        return tuple(entry.key for entry in self.list_objects(prefix))

    def list_objects(self, prefix: str = "") -> Sequence[StoredObject]:
        """Returns all objects whose keys have this prefix, in order; none if the bucket does not exist."""
        try:
            return self._request("list", f"{prefix}*", lambda s3: _objects(s3, Bucket=self.bucket, Prefix=prefix))
        except _Absent:
            return ()

    def delete(self, key: str) -> None:
        """Deletes an object. Does nothing if it does not exist."""
        with suppress(_Absent):
            self._request("delete", key, lambda s3: s3.delete_object(Bucket=self.bucket, Key=key))

    def ensure_bucket(self) -> None:
        """Creates the bucket unless it exists."""
        with suppress(_Absent):
            self._request("find", None, lambda s3: s3.head_bucket(Bucket=self.bucket))
            return
        self._request("create", None, lambda s3: _create_bucket(s3, self.bucket))

    def _connected(self) -> Any:
        with self._lock:  # clients are safe to share between threads, creating one is not
            if self._client is None:
                self._client = _client(self.endpoint, self._credentials or StorageCredentials.from_settings())
            return self._client

    def _request(self, verb: str, key: str | None, request: Callable[[Any], _T]) -> _T:
        """Sends one request. Raises `_Absent` or one of the public errors."""
        from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError

        what = f"bucket {self.bucket!r}" if key is None else f"{key!r} in bucket {self.bucket!r}"
        failed = f"cannot {verb} {what} at {self.endpoint or 'AWS S3'}"
        until, last_reason = self._unreachable
        if time.monotonic() < until:  # each request would block a thread for the whole timeout
            raise StorageUnavailable(f"{failed}: {last_reason}")
        try:
            return request(self._connected())
        except ClientError as error:
            kind, reason = _classify_response(error.response)
        except (BotoCoreError, ValueError) as error:  # ValueError: the endpoint is not a URL
            kind, reason = _classify_exception(error)
            if isinstance(error, ConnectTimeoutError):
                self._unreachable = (time.monotonic() + UNREACHABLE_PAUSE, reason)
        raise kind(f"{failed}: {reason}")


@lru_cache(maxsize=8)
def _store(bucket: str, endpoint: str | None, credentials: StorageCredentials) -> ObjectStore:
    return ObjectStore(bucket, endpoint, credentials)


def _client(endpoint: str | None, credentials: StorageCredentials) -> Any:
    """Returns a client with explicit limits, path-style addresses and no optional checksums: S3 clones need these."""
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
        verify=credentials.ca or None,
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
    with closing(answer["Body"]) as stream:  # `with stream` would yield the raw stream, which raises other errors
        data: bytes = stream.read()
    return data


def _written(s3: Any, **request: Any) -> bool:
    """Writes an object. Returns False if the request has a precondition that is not met."""
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
        if _code(error) not in _OURS_ALREADY:  # created concurrently; if it is not ours, the first write fails
            raise


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _classify_response(response: Mapping[str, Any]) -> tuple[type[StorageError], str]:
    """Returns the class of the error to raise for an error response, and the reason.

    501 is not transient: the endpoint does not support the request.
    """
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = str(response.get("Error", {}).get("Code", "")) or "no error code"
    if code in _ABSENT:
        return _Absent, f"{code} (HTTP {status})"
    transient = code in _TRANSIENT or status in _TRANSIENT_STATUS or (status >= 500 and status != 501)
    hint = f": {_CREDENTIALS}" if code in _DENIED or status == 403 else ""
    return (StorageUnavailable if transient else StorageError), f"{code} (HTTP {status}){hint}"


def _classify_exception(error: Exception) -> tuple[type[StorageError], str]:
    """Returns the class of the error to raise for a request without a response, and the reason.

    The reason does not quote the exception's text, which may contain secrets.
    """
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
    transient = transient and not isinstance(error, SSLError)  # a retry does not repair a certificate
    hint = ""
    if isinstance(error, (NoCredentialsError, PartialCredentialsError)):
        hint = f": {_CREDENTIALS}"
    elif not transient or isinstance(error, EndpointConnectionError):
        hint = f": check S3_ENDPOINT_URL ({STORAGE.where})"
    return (StorageUnavailable if transient else StorageError), f"{type(error).__name__}{hint}"


def _without_userinfo(url: str) -> str:
    """Returns the URL without user and password, which S3 does not use, so that they cannot reach a log.

    A password with an unescaped slash is removed as well, although a URL parser would take its end for a path.
    """
    return re.sub(r"//.*@", "//", url)
