"""One piece of work at a time for each key, and any number for different ones, within a process."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import Lock


class Flights:
    def __init__(self) -> None:
        self._guard = Lock()
        self._locks: dict[Hashable, tuple[Lock, int]] = {}
        """With the number of those who have it or wait for it."""

    @contextmanager
    def alone(self, key: Hashable) -> Iterator[None]:
        """Waits until nobody else is within the same key."""
        with self._guard:
            lock, users = self._locks.get(key, (Lock(), 0))
            self._locks[key] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, users = self._locks[key]
                if users > 1:
                    self._locks[key] = lock, users - 1
                else:
                    del self._locks[key]
