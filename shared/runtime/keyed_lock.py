"""Serializes work on the same key within a process, and bounds how many keys are worked on at a time."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock

from ..kube import Unavailable
from ..kube.acquire import acquired

TIMEOUT = 2.0
"""Seconds that a thread waits by default: it is needed for other events, and its own event is delivered again."""


class KeyedLock:
    """A lock for each key, made when it is first held and dropped when nothing waits for it.

    Args:
        work: What is done under the lock, for error messages.
        limit: How many keys may be held at a time.
        timeout: Seconds to wait for a key and for room.
    """

    def __init__(self, work: str, *, limit: int = 1_000, timeout: float = TIMEOUT) -> None:
        self._work, self._timeout = work, timeout
        self._room = BoundedSemaphore(limit)
        self._guard = Lock()
        self._locks: dict[Hashable, tuple[Lock, int]] = {}
        """The lock of each key, with the number of threads that hold it or wait for it."""

    @contextmanager
    def hold(self, key: Hashable) -> Iterator[None]:
        """Holds the lock of `key`. Raises `Unavailable` if it is not free within the timeout."""
        with self._guard:
            lock, users = self._locks.get(key, (Lock(), 0))
            self._locks[key] = lock, users + 1
        try:
            until = time.monotonic() + self._timeout
            busy = Unavailable(f"{self._work} is under way for other events", retry_after=self._timeout)
            with acquired(lock, self._timeout, busy), acquired(self._room, until - time.monotonic(), busy):
                yield
        finally:
            with self._guard:
                lock, users = self._locks[key]
                if users > 1:
                    self._locks[key] = lock, users - 1
                else:
                    del self._locks[key]
