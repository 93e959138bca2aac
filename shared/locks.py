"""Acquires locks and semaphores with a time limit, because a thread that waits forever cannot serve other requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock


@contextmanager
def acquired(lock: Lock | BoundedSemaphore, seconds: float, timeout_error: Exception) -> Iterator[None]:
    """Holds the lock, or one slot of the semaphore. Raises `timeout_error` if it is not free within `seconds`."""
    if not lock.acquire(timeout=max(0.0, seconds)):
        raise timeout_error
    try:
        yield
    finally:
        lock.release()
