"""Locks and semaphores that nobody waits for without end: a thread that waits is missed elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock

from .errors import Unavailable


@contextmanager
def held(place: Lock | BoundedSemaphore, seconds: float, refusal: Unavailable) -> Iterator[None]:
    """Holds the lock, or one place of the semaphore. Raises `refusal` where it is not free within so many seconds."""
    if not place.acquire(timeout=max(0.0, seconds)):
        raise refusal
    try:
        yield
    finally:
        place.release()
