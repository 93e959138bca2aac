"""One piece of work at a time for each key, and only so many for different ones, within a process."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock

from ..kube import Unavailable
from ..kube.places import held

SECONDS = 2.0
"""How long a thread waits for another: it is missed elsewhere, and the event comes again."""


class Flights:
    """`what` is being done, for messages; `most` bounds the keys that are worked on at a time."""

    def __init__(self, what: str, *, most: int = 1_000, seconds: float = SECONDS) -> None:
        self._what, self._seconds = what, seconds
        self._places = BoundedSemaphore(most)
        self._guard = Lock()
        self._locks: dict[Hashable, tuple[Lock, int]] = {}
        """With the number of those who have it or wait for it."""

    @contextmanager
    def alone(self, key: Hashable) -> Iterator[None]:
        """Waits until nobody else is within the same key. Raises `Unavailable` where that takes long."""
        with self._guard:
            lock, users = self._locks.get(key, (Lock(), 0))
            self._locks[key] = lock, users + 1
        try:
            until = time.monotonic() + self._seconds
            busy = Unavailable(f"{self._what} is under way for other events", retry_after=self._seconds)
            with held(lock, self._seconds, busy), held(self._places, until - time.monotonic(), busy):
                yield
        finally:
            with self._guard:
                lock, users = self._locks[key]
                if users > 1:
                    self._locks[key] = lock, users - 1
                else:
                    del self._locks[key]
