"""Stores objects in a bucket (S3, Google Cloud, Azure) or a folder: the only state of the functions outside Kubernetes.

Callers see bytes by object key and two errors: `StorageUnavailable`, where a retry may help, and `StorageError`, where
a user has to change something first.

The library obstore sends the requests. A dishonest store can do only limited damage. An object larger than the caller
expects is not read, a listing has at most `MAX_LISTED` objects and ends in time, and a redirect to another host is
refused. obstore reads bodies of errors and pages of listings as a whole, so only the time-outs bound these. The
operator chooses the store, and trusts it for availability, not for integrity.

Settings: the group `shared.settings.STORAGE`. The environment of the process may set more variables: proxies, and the
variables by which boto3 finds keys, or obstore finds the identity of a workload (Google Cloud, Azure).
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from shared import buckets
from shared.buckets import Absent, Bucket, Exists
from shared.buckets import StorageError as StorageError
from shared.buckets import StorageUnavailable as StorageUnavailable
from shared.settings import SETTINGS

T = TypeVar("T")

log = logging.getLogger(__name__)

SLOW = 1.0  # seconds; a failure that takes longer is slow
PAUSE = 3.0  # seconds without requests after a slow failure, because each would block a thread

MAX_OBJECT = 128 << 20  # bytes of an object, if the caller does not expect fewer
MAX_LISTED = 100_000  # objects of one listing

_PAGE = 1000  # objects
_CHUNK = 1 << 20  # bytes


class StoredObject(NamedTuple):
    """The key of an object, and the time of its last write."""

    key: str
    modified: datetime


class ObjectStore:
    """Reads and writes the objects of one bucket or folder. Creating a store does no I/O, and threads may share it.

    Every method raises `StorageUnavailable` or `StorageError`.

    Args:
        url: `s3://<bucket>/<prefix>`, `gs://<bucket>/<prefix>`, `az://<container>/<prefix>` or `file:///<path>`.
        settings: Endpoint, region, keys and CA of the bucket.
    """

    def __init__(self, url: str, settings: Mapping[str, str] = SETTINGS) -> None:
        self.url = url
        self._place = Bucket(url, buckets.relevant(settings))
        self._lock = threading.Lock()
        self._opened: Any = None
        self._unreachable: tuple[float, str] = (float("-inf"), "")
        """The time until which requests fail without being sent, and the reason."""

    @classmethod
    def from_env(cls, env: Mapping[str, str] = SETTINGS) -> ObjectStore:
        """Returns the store that the settings name. Until they change, each call returns the same store."""
        return _store(buckets.url_in(env), tuple(buckets.relevant(env).items()))

    @property
    def is_folder(self) -> bool:
        """Whether the objects are files of this machine."""
        return self._place.scheme == "file"

    @property
    def bucket(self) -> str:
        """The name of the bucket, or the path of the folder."""
        return self._place.name

    @property
    def endpoint(self) -> str:
        """The endpoint of S3; empty: AWS, or another kind of store."""
        return self._place.endpoint

    def get(self, key: str, limit: int = MAX_OBJECT) -> bytes | None:
        """Returns the content of an object; None if the object or the bucket does not exist.

        An object of more than `limit` bytes counts as absent, like a damaged object, because no caller has written it.
        """
        import obstore

        def read(store: Any) -> bytes | None:
            found = obstore.get(store, key)
            size, data = found.meta["size"], bytearray()
            for chunk in found.stream(_CHUNK) if size <= limit else ():
                data += chunk
                if len(data) > size:  # the store has lied about the size
                    break
            if size > limit or len(data) > size:
                log.warning("%s counts as absent: it has more than %d bytes", self._what(key), min(size, limit))
                return None
            if len(data) < size:
                raise StorageUnavailable("the response is incomplete")
            return bytes(data)

        try:
            return self._request("read", key, read)
        except Absent:
            return None

    def put(self, key: str, data: bytes, *, if_absent: bool) -> bool:
        """Writes an object. With `if_absent` an existing object stays unchanged, and the result is False.

        Creates the bucket if it is absent and the store is S3.
        """
        import obstore

        def write(store: Any) -> None:
            obstore.put(store, key, data, mode="create" if if_absent else "overwrite", use_multipart=False)

        try:
            try:
                self._request("write", key, write)
            except Absent:
                if self._place.scheme != "s3":
                    raise
                self._request("create", "", lambda _store: self._place.create())
                self._request("write", key, write)
        except Exists:
            return False
        except Absent as error:
            raise StorageError(f"{error}: create the bucket, or {buckets.CHECK_STORE}") from None
        return True

    def exists(self, key: str) -> bool:
        """Returns whether the object exists."""
        return self.modified(key) is not None

    def modified(self, key: str) -> datetime | None:
        """Returns the time of the last write of an object; None if it does not exist."""
        import obstore

        try:
            found: datetime = self._request("check", key, lambda store: obstore.head(store, key)["last_modified"])
            return found
        except Absent:
            return None

    def list(self, folder: str = "") -> Sequence[str]:
        """Returns all keys in a folder, in order; none if the bucket does not exist."""
        return tuple(entry.key for entry in self.list_objects(folder))

    def list_objects(self, folder: str = "", *, partial: bool = False) -> Sequence[StoredObject]:
        """Returns all objects in a folder, such as `releases/`, in order; none if the bucket does not exist.

        If there are more than `MAX_LISTED` objects, `partial` returns the first ones, for callers that delete listed
        objects.
        """
        import asyncio  # here: only listings need it, and its import takes 25 ms

        import obstore

        async def collect(store: Any) -> list[StoredObject]:
            found: list[StoredObject] = []
            async for page in obstore.list(store, folder.rstrip("/") or None, chunk_size=_PAGE):
                found += [StoredObject(entry["path"], entry["last_modified"]) for entry in page]
                if len(found) > MAX_LISTED and partial:
                    return found[:MAX_LISTED]
                if len(found) > MAX_LISTED:
                    raise StorageError(f"it has more than {MAX_LISTED} objects")
            return found

        def ask(store: Any) -> Sequence[StoredObject]:
            # Asynchronous, because a blocking listing of endless empty pages could not be ended.
            try:
                return asyncio.run(asyncio.wait_for(collect(store), buckets.TOTAL_TIMEOUT))
            finally:
                _await_threads_in_asyncio()

        try:
            return tuple(sorted(self._request("list", f"{folder}*", ask)))
        except Absent:
            return ()

    def delete(self, key: str) -> None:
        """Deletes an object. Does nothing if it does not exist."""
        import obstore

        with suppress(Absent):
            self._request("delete", key, lambda store: obstore.delete(store, key))

    def delete_old(self, entry: StoredObject, before: datetime) -> bool:
        """Deletes a listed object if it was last written before `before`. Returns whether it was deleted.

        An object that was written a moment ago may belong to work in progress, which has not recorded yet that it needs
        the object.
        """
        if entry.modified >= before:
            return False
        modified = self.modified(entry.key)  # the object may have been written again after the list
        if modified is None or modified >= before:
            return False
        self.delete(entry.key)
        return True

    def _request(self, verb: str, key: str, send: Callable[[Any], T]) -> T:
        """Calls `send` with obstore's store. Raises `Absent`, `Exists` or one of the public errors."""
        until, reason = self._unreachable
        started = time.monotonic()
        try:
            if started < until:  # each request would block a thread for the whole timeout
                raise StorageUnavailable(reason)
            try:
                return send(self._open())
            except StorageError:
                raise
            except TimeoutError:  # of a listing
                raise StorageUnavailable(f"no answer in time: {self._place.remedy}") from None
            except Exception as error:  # obstore raises its own and some built-in types
                raise buckets.failure(error, self._place) from None
        except StorageError as error:
            now = time.monotonic()
            if isinstance(error, StorageUnavailable) and now - started > SLOW:
                self._unreachable = (now + PAUSE, str(error))
            raise type(error)(f"cannot {verb} {self._what(key)} at {self._place.place}: {error}") from None

    def _open(self) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = self._place.open()
            return self._opened

    def _what(self, key: str) -> str:
        kind = "folder" if self.is_folder else "bucket"
        return f"{key!r} in {kind} {self.bucket!r}" if key else f"{kind} {self.bucket!r}"


def _await_threads_in_asyncio() -> None:
    """Waits until obstore's threads have left asyncio, because Python aborts if it ends while one is there."""
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        frames = [frame for thread, frame in sys._current_frames().items() if thread != threading.get_ident()]
        if not any(frame.f_globals.get("__name__", "").startswith("asyncio.") for frame in frames):
            return
        time.sleep(0.001)


@lru_cache(maxsize=8)
def _store(url: str, settings: tuple[tuple[str, str], ...]) -> ObjectStore:
    return ObjectStore(url, dict(settings))
