"""Stores objects at an S3 endpoint: the only state of the functions outside Kubernetes.

Callers see bytes by object key and two errors: `StorageUnavailable`, where a retry may help, and `StorageError`, where
a user has to change something first.

Settings: the group `shared.settings.STORAGE`. The environment of the process may set more variables:
`AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, proxies, and those by which boto3 finds access keys of a role or in a file.
"""

from __future__ import annotations

import random
import ssl
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple

import urllib3

from shared import s3
from shared.kube.causes import cause
from shared.network import TlsSocket, deadline, manager, origin, proxy_for
from shared.settings import SETTINGS, STORAGE

DEFAULT_BUCKET = "capi-functions"
CONNECT_TIMEOUT = 2.0  # seconds
READ_TIMEOUT = 10.0  # seconds without a byte
TOTAL_TIMEOUT = 120.0  # seconds for one attempt
ATTEMPTS = 2  # a first try and one retry; after a longer outage the event is delivered again
CONNECTIONS = 16
SLOW = 1.0  # seconds; a failure that takes longer is slow
PAUSE = 3.0  # seconds without requests after a slow failure, as each would block a thread

_ABSENT = {"NoSuchKey", "NoSuchBucket", "404"}
_TRANSIENT = {"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestTimeout"}
_TRANSIENT_STATUS = {408, 409, 429}
_DENIED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"}
_BUCKET_EXISTS = {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}

_SET_KEYS = f"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys for this bucket ({STORAGE.where})"
_CHECK_ENDPOINT = f"check S3_ENDPOINT_URL ({STORAGE.where})"


class StorageError(Exception):
    """A request failed, and a retry cannot help.

    The message names bucket, key and endpoint, never credentials.
    """


class StorageUnavailable(StorageError):
    """A request failed for a transient reason: the object store is unreachable, overloaded or has an internal error."""


class _Absent(StorageError):
    """The object or the bucket does not exist."""


@dataclass(frozen=True)
class StorageAccess:
    """Access keys, region and CA for the object store; boto3 searches for keys and region that are empty."""

    keys: s3.Keys = field(default_factory=s3.Keys)
    region: str = ""
    ca: str = ""
    """Path of a file with the endpoint's CA; empty: the CAs of the system."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, str] = SETTINGS) -> StorageAccess:
        """Returns the access in `settings`."""
        return cls(s3.Keys.in_settings(settings), s3.region_in(settings), settings.get("AWS_CA_BUNDLE", ""))


class StoredObject(NamedTuple):
    """The key of an object, and the time of its last write."""

    key: str
    modified: datetime


class _Response(NamedTuple):
    """A response of the endpoint; `code` is the error code of S3, or the HTTP status, or "" after a success."""

    status: int
    code: str
    headers: Mapping[str, str]
    body: bytes


class ObjectStore:
    """Reads and writes the objects of one bucket. Creating a store does no I/O, and threads may share it.

    Every method raises `StorageUnavailable` or `StorageError`.

    Args:
        bucket: The name of the bucket.
        endpoint: The URL of the S3 endpoint; by default that of AWS.
        access: Access keys, region and CA; by default those in the settings at the time of each request.
    """

    is_folder = False

    def __init__(self, bucket: str, endpoint: str | None = None, access: StorageAccess | None = None) -> None:
        self.bucket = bucket
        self.endpoint = _without_userinfo(endpoint) if endpoint else None
        self._access = access
        self._lock = threading.Lock()
        self._pool: urllib3.PoolManager | None = None
        self._unreachable: tuple[float, str] = (float("-inf"), "")
        """The time until which requests fail without being sent, and the reason."""

    @classmethod
    def from_env(cls, env: Mapping[str, str] = SETTINGS) -> ObjectStore:
        """Returns the store that the settings name. Until they change, each call returns the same store."""
        bucket = env.get("CAPI_FUNCTIONS_BUCKET") or DEFAULT_BUCKET
        return _store(bucket, s3.endpoint_in(env) or None, StorageAccess.from_settings(env))

    def get(self, key: str) -> bytes | None:
        """Returns the content of an object; None if the object or the bucket does not exist."""
        try:
            return self._request("read", key, "GET").body
        except _Absent:
            return None

    def put(self, key: str, data: bytes, *, if_absent: bool) -> bool:
        """Writes an object. With `if_absent` an existing object stays unchanged, and the result is False."""
        condition = {"If-None-Match": "*"} if if_absent else {}
        response = self._request("write", key, "PUT", body=data, headers=condition, accepted={"PreconditionFailed"})
        return not response.code

    def exists(self, key: str) -> bool:
        """Returns whether the object exists."""
        return self._head(key) is not None

    def modified(self, key: str) -> datetime | None:
        """Returns the time of the last write of an object; None if it does not exist."""
        found = self._head(key)
        return parsedate_to_datetime(found.headers["Last-Modified"]) if found else None

    def list(self, prefix: str = "") -> Sequence[str]:
        """Returns all keys with this prefix, in order; none if the bucket does not exist."""
        return tuple(entry.key for entry in self.list_objects(prefix))

    def list_objects(self, prefix: str = "") -> Sequence[StoredObject]:
        """Returns all objects whose keys have this prefix, in order; none if the bucket does not exist."""

        def ask(query: Mapping[str, str]) -> bytes:
            return self._request("list", f"{prefix}*", "GET", query=query).body

        try:
            return tuple(
                StoredObject(s3.text(entry, "Key"), datetime.fromisoformat(s3.text(entry, "LastModified")))
                for page in s3.pages(prefix, ask)
                for entry in page.iterfind("{*}Contents")
            )
        except _Absent:
            return ()
        except ValueError:
            raise StorageError(f"{self._place()} does not answer as S3 does: {_CHECK_ENDPOINT}") from None

    def delete(self, key: str) -> None:
        """Deletes an object. Does nothing if it does not exist."""
        with suppress(_Absent):
            self._request("delete", key, "DELETE")

    def ensure_bucket(self) -> None:
        """Creates the bucket unless it exists."""
        with suppress(_Absent):
            self._request("check", None, "HEAD")
            return
        # Another process may have created the bucket meanwhile; if it belongs to others, the first write fails.
        self._request("create", None, "PUT", accepted=_BUCKET_EXISTS)

    def _head(self, key: str) -> _Response | None:
        try:
            return self._request("check", key, "HEAD")
        except _Absent:
            return None

    def _request(
        self,
        verb: str,
        key: str | None,
        method: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        accepted: Collection[str] = (),
    ) -> _Response:
        """Sends a request, at most twice, and returns its response: a success, or an error with an accepted code.

        `key` is the object, or None for the bucket; with a `query`, the request is about the bucket, and `key` is for
        messages only. Raises `_Absent` or one of the public errors.
        """
        what = f"bucket {self.bucket!r}" if key is None else f"{key!r} in bucket {self.bucket!r}"
        path = "" if key is None or query else key
        for attempt in range(1, ATTEMPTS + 1):
            until, reason = self._unreachable
            started = time.monotonic()
            if started < until:  # each request would block a thread for the whole timeout
                raise StorageUnavailable(f"cannot {verb} {what} at {self._place()}: {reason}")
            try:
                response = self._send(method, path, query or {}, headers or {}, body)
                if response.code and response.code not in accepted:
                    raise _error(response)
                return response
            except StorageError as error:
                transient = isinstance(error, StorageUnavailable)
                slow = transient and time.monotonic() - started > SLOW
                if slow:
                    self._unreachable = (time.monotonic() + PAUSE, str(error))
                if slow or attempt == ATTEMPTS or not transient:
                    raise type(error)(f"cannot {verb} {what} at {self._place()}: {error}") from None
            time.sleep(random.uniform(0.05, 0.15))  # noqa: S311 - jitter, not a secret
        raise AssertionError("the last attempt returns or raises")

    def _send(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> _Response:
        """Sends one request. The messages of its errors name the reason only; `_request` adds the object."""
        access = self._access or StorageAccess.from_settings()
        try:
            keys, region = s3.find(access.keys, access.region)
        except s3.KeysError as error:
            kind = StorageUnavailable if error.transient else StorageError
            raise kind(f"{error}: {_SET_KEYS}") from None
        if keys is None:
            raise StorageError(f"there are no access keys: {_SET_KEYS}")
        if method == "PUT" and not path:  # creates the bucket
            body = s3.creation(region)
        url = s3.Bucket(self.bucket, self.endpoint or "", region).url(path, query)
        pool = self._connections(url, access.ca)
        try:
            with deadline(time.monotonic() + TOTAL_TIMEOUT):
                answer = pool.request(
                    method,
                    url,
                    body=body,
                    headers={"Accept-Encoding": "identity"}
                    | s3.sign(method, url, keys, region, headers=headers, body=body),
                    timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=READ_TIMEOUT),
                    decode_content=False,
                    retries=False,
                    redirect=False,
                )
        except urllib3.exceptions.SSLError as error:  # a retry does not repair a certificate
            raise StorageError(f"{cause(error)}: {_CHECK_ENDPOINT}") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise StorageUnavailable(f"{cause(error)}: {_CHECK_ENDPOINT}") from None
        code = "" if 200 <= answer.status < 300 else s3.error_code(answer.data) or str(answer.status)
        return _Response(answer.status, code, answer.headers, answer.data)

    def _connections(self, url: str, ca: str) -> urllib3.PoolManager:
        """Returns the connections to the endpoint, through a proxy if the environment has one for it."""
        with self._lock:
            if self._pool is None:
                try:
                    scheme, host, _ = origin(url)
                    context = _tls(ca) if scheme == "https" else None  # certificates take 30 ms to load
                    proxy = proxy_for(scheme, host, SETTINGS)
                    self._pool = manager(proxy, anywhere=True, maxsize=CONNECTIONS, ssl_context=context)
                except ValueError as error:
                    raise StorageError(f"{error}: {_CHECK_ENDPOINT}") from None
                except OSError as error:
                    raise StorageError(f"the proxy cannot be used: {cause(error)}") from None
            return self._pool

    def _place(self) -> str:
        return self.endpoint or "AWS S3"


def _tls(ca: str) -> ssl.SSLContext:
    """Returns a TLS context that trusts the CA in a file; empty: those of the system. Raises `StorageError`."""
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except OSError as error:
        raise StorageError(f"AWS_CA_BUNDLE {ca!r} cannot be used: {cause(error)}") from None
    context.sslsocket_class = TlsSocket
    return context


@lru_cache(maxsize=8)
def _store(bucket: str, endpoint: str | None, access: StorageAccess) -> ObjectStore:
    return ObjectStore(bucket, endpoint, access)


def _error(response: _Response) -> StorageError:
    """Returns the error for a response; its message is the reason.

    501 is not transient: the endpoint does not support the request.
    """
    status, code = response.status, response.code
    reason = f"HTTP {status}" if code == str(status) else f"{code} (HTTP {status})"
    if code in _ABSENT:
        return _Absent(reason)
    if 300 <= status < 400:
        region = response.headers.get("x-amz-bucket-region")
        place = (
            f"in region {region}: set AWS_DEFAULT_REGION"
            if region
            else "elsewhere: set AWS_DEFAULT_REGION or S3_ENDPOINT_URL"
        )
        return StorageError(f"{reason}: the bucket is {place} ({STORAGE.where})")
    if code in _DENIED or status == 403:
        return StorageError(f"{reason}: {_SET_KEYS}")
    transient = code in _TRANSIENT or status in _TRANSIENT_STATUS or (status >= 500 and status != 501)
    return StorageUnavailable(reason) if transient else StorageError(reason)


def _without_userinfo(url: str) -> str:
    """Returns the URL without user and password, which S3 does not use, so that they cannot reach a log.

    A password with an unescaped slash is removed as well, although a URL parser would take its end for a path.
    """
    before, _, address = url.rpartition("@")
    scheme, slashes, _ = before.partition("//")
    return f"{scheme}//{address}" if slashes else url
