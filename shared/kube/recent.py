"""Lists that are kept for a moment, for objects that many decisions need and that hardly ever change.

What is handed out is never older than what the caller knows already: the versions of one API server's objects count
upwards, so a list that is older than the caller's own object is read again. Somebody who creates A and then B, which
needs A, can rely on that.
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
class _Kept:
    objects: Sequence[Object]
    version: int
    at: float


class RecentLists:
    """Safe to share between threads. The objects are everybody's: not to be changed."""

    def __init__(self, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._lock = Lock()
        self._kept: WeakKeyDictionary[Client, dict[tuple[Resource, str], _Kept]] = WeakKeyDictionary()

    def list(self, client: Client, resource: Resource, namespace: str, *, since: str = "") -> Sequence[Object]:
        """All objects of the kind, as they were at `since` (a resourceVersion) or later; without it, as they are now.

        Raises `ApiError`.
        """
        what = (resource, namespace)
        with self._lock:
            kept = self._kept.get(client, {}).get(what)
        if kept and since.isdecimal() and int(since) <= kept.version and self._clock() - kept.at < self._seconds:
            return kept.objects
        at = self._clock()
        pages = list(client.pages(resource, namespace))
        objects = [obj for page in pages for obj in page["items"]]
        version = str(pages[0].get("metadata", {}).get("resourceVersion", ""))
        if version.isdecimal():
            with self._lock:
                self._kept.setdefault(client, {})[what] = _Kept(objects, int(version), at)
        return objects
