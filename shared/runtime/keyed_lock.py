"""Serializes work on the same key within a process, and limits the number of keys in progress.

A lower limit per tenant can leave room for other tenants.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, nullcontext
from threading import BoundedSemaphore, Lock

from ..kube import Unavailable
from ..locks import acquired

TIMEOUT = 2.0
"""The default wait in seconds; then the thread serves other events, and its own event is redelivered."""

_ALL = object()
"""Stands for all tenants together."""


class KeyedLock:
    """A lock for each key, created at first use and dropped when nothing waits for it.

    Args:
        work: The name of the work under the lock, for error messages.
        limit: The maximum number of keys held at a time.
        each: The maximum for one tenant; by default `limit`. If set, all tenants together leave one slot for keys
            without a tenant, because one person may be many tenants.
        timeout: Seconds to wait for a key and for room.
    """

    def __init__(self, work: str, *, limit: int = 1_000, each: int = 0, timeout: float = TIMEOUT) -> None:
        self._work, self._timeout = work, timeout
        self._limit, self._each = limit, each or limit
        self._room = BoundedSemaphore(limit)
        self._guard = Lock()
        self._locks: dict[Hashable, tuple[BoundedSemaphore, int]] = {}
        """The lock of each key, with the number of threads that hold it or wait for it."""
        self._shares: dict[Hashable, tuple[BoundedSemaphore, int]] = {}
        """The same for the slots of each tenant, and of all tenants together."""

    @contextmanager
    def hold(self, key: Hashable, tenant: str = "") -> Iterator[None]:
        """Holds the lock of `key` for a tenant; "" stands for no tenant, and has all slots.

        Raises `Unavailable` if the lock is not free within the timeout.
        """
        until = time.monotonic() + self._timeout
        limited = bool(tenant) and self._each < self._limit
        with (
            self._entered(self._locks, key, 1, until),
            self._entered(self._shares, tenant, self._each if limited else self._limit, until),
            self._entered(self._shares, _ALL, self._limit - 1, until) if limited else nullcontext(),
            acquired(self._room, until - time.monotonic(), self._busy),
        ):
            yield

    @property
    def _busy(self) -> Unavailable:
        return Unavailable(f"{self._work} is under way for other events", retry_after=self._timeout)

    @contextmanager
    def _entered(
        self, entries: dict[Hashable, tuple[BoundedSemaphore, int]], key: Hashable, size: int, until: float
    ) -> Iterator[None]:
        """Holds one of the `size` slots of an entry, which is dropped after its last user."""
        with self._guard:
            slots, users = entries.get(key, (BoundedSemaphore(size), 0))
            entries[key] = slots, users + 1
        try:
            with acquired(slots, until - time.monotonic(), self._busy):
                yield
        finally:
            with self._guard:
                slots, users = entries[key]
                if users > 1:
                    entries[key] = slots, users - 1
                else:
                    del entries[key]
