"""A short-lived cache of lists, for objects that many decisions read and that rarely change.

A cached list is never older than its caller's own object. Resource versions of one API server increase, so a list with
an older version is read again. So if somebody creates A and then B, which needs A, a decision about B sees A.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from weakref import WeakKeyDictionary

from ..locks import acquired
from .client import Client
from .errors import Unavailable
from .resources import Object, Resource

SECONDS = 3.0
_PATIENCE = 30.0
"""Seconds for which a thread waits for the lists of other threads."""


@dataclass(frozen=True)
class _Cached:
    objects: Sequence[Object]
    version: int
    read_at: float


class ListCache:
    """Lists by client, resource and namespace. Safe to share between threads; callers must not change the objects."""

    def __init__(self, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._lock = Lock()
        self._cached: WeakKeyDictionary[Client, dict[tuple[Resource, str], _Cached]] = WeakKeyDictionary()
        self._reading: WeakKeyDictionary[Client, dict[tuple[Resource, str], Lock]] = WeakKeyDictionary()

    def list(self, client: Client, resource: Resource, namespace: str, *, since: str = "") -> Sequence[Object]:
        """Returns all objects of the kind in the namespace, as of the resource version `since` or later.

        Without `since` the list is always read anew. One thread reads at a time, so that waiting threads can share its
        list. Raises `ApiError`.
        """
        key = (resource, namespace)
        if not since.isdecimal():
            return self._read(client, key)
        if (cached := self._find(client, key, since)) is not None:
            return cached
        with self._lock:
            used = {known: lock for known, lock in self._reading.get(client, {}).items() if lock.locked()}
            # If a thread is about to acquire a lock that is dropped here, two threads read the same list.
            reading = self._reading.get(client, {}).get(key) or Lock()
            self._reading[client] = {**used, key: reading}
        with acquired(reading, _PATIENCE, Unavailable(f"{resource.kind} list: other lists take too long")):
            cached = self._find(client, key, since)
            return self._read(client, key) if cached is None else cached

    def _find(self, client: Client, key: tuple[Resource, str], since: str) -> Sequence[Object] | None:
        with self._lock:
            cached = self._cached.get(client, {}).get(key)
        if cached is None or self._clock() - cached.read_at >= self._seconds:
            return None
        return cached.objects if int(since) <= cached.version else None

    def _read(self, client: Client, key: tuple[Resource, str]) -> Sequence[Object]:
        now = self._clock()
        pages = list(client.pages(*key))
        objects = [obj for page in pages for obj in page["items"]]
        version = str(pages[0].get("metadata", {}).get("resourceVersion", ""))
        if version.isdecimal():
            with self._lock:
                cached = self._cached.get(client, {})
                fresh = {known: one for known, one in cached.items() if now - one.read_at < self._seconds}
                self._cached[client] = {**fresh, key: _Cached(objects, int(version), now)}
        return objects
