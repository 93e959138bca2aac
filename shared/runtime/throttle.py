"""Limits how often a function does expensive work, because any sender of events can start the sweep or a clean-up."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
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
