"""Limits how often functions do expensive work, because any sender of events can start a sweep or a clean-up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from ..clients import Clients
from .answer import Answer, done
from .keyed_lock import KeyedLock


class Throttle:
    """Runs one piece of work at a time within a process. `work` names it in messages."""

    def __init__(self, work: str) -> None:
        self._work = work
        self._lock = KeyedLock(work)
        self._finished: WeakKeyDictionary[Clients, dict[Hashable, float]] = WeakKeyDictionary()

    def run(self, clients: Clients, key: Hashable, interval: float, work: Callable[[], Answer]) -> Answer:
        """Returns the answer of `work`, without running it if `key` succeeded less than `interval` seconds ago.

        Raises `Unavailable` while another thread does the work.
        """
        with self._lock.hold(id(clients)):
            finished = self._finished.setdefault(clients, {})
            ago = time.monotonic() - finished.get(key, float("-inf"))
            if ago < interval:
                return done(f"{self._work} was done {ago:.0f} s ago")
            answer = work()
            if answer.status < 300:
                finished[key] = time.monotonic()
            return answer


V = TypeVar("V")


class SharedRead(Generic[V]):
    """Reads a value at most once in `pause` seconds; calls that arrive in between wait, and share the next value.

    Each call gets a value whose read began after the call. An older value may lack the object of the event, and brokers
    do not redeliver on request.
    """

    def __init__(self, pause: float) -> None:
        self.pause = pause
        self._lock = threading.Lock()
        self._last: tuple[float, V] | None = None
        """The start of the last read, by the monotonic clock, and the value."""

    def get(self, read: Callable[[], V]) -> V:
        """Returns a present value. Raises what `read` raises."""
        arrived = time.monotonic()
        with self._lock:
            if self._last is None or self._last[0] < arrived:
                if self._last is not None:
                    time.sleep(max(0.0, self._last[0] + self.pause - time.monotonic()))
                self._last = (time.monotonic(), read())
            return self._last[1]
