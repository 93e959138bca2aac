"""A short-lived cache of lists, for objects that many decisions read and that rarely change.

A cached list is never older than what its caller already knows: resource versions of one API server increase, so a list
older than the caller's own object is read again. Whoever creates A and then B, which needs A, can rely on that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from weakref import WeakKeyDictionary

from .client import Client
from .resources import Object, Resource

SECONDS = 3.0


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

    def list(self, client: Client, resource: Resource, namespace: str, *, since: str = "") -> Sequence[Object]:
        """Returns all objects of the kind in the namespace, as of the resource version `since` or later.

        Without `since` the list is always read anew. Raises `ApiError`.
        """
        key = (resource, namespace)
        with self._lock:
            cached = self._cached.get(client, {}).get(key)
        now = self._clock()
        fresh = cached is not None and now - cached.read_at < self._seconds
        if cached and fresh and since.isdecimal() and int(since) <= cached.version:
            return cached.objects
        pages = list(client.pages(resource, namespace))
        objects = [obj for page in pages for obj in page["items"]]
        version = str(pages[0].get("metadata", {}).get("resourceVersion", ""))
        if version.isdecimal():
            with self._lock:
                self._cached.setdefault(client, {})[key] = _Cached(objects, int(version), now)
        return objects
