"""Work that a timer asks for, and so does anybody who can send events: one at a time, and not again for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from weakref import WeakKeyDictionary

from ..clients import Clients
from ..kube import Unavailable
from .answer import Answer, done
from .flights import Flights


class Turns:
    """Of one function, within a process; `what` names the work in messages."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._flights = Flights(what)
        self._done: WeakKeyDictionary[Clients, dict[Hashable, float]] = WeakKeyDictionary()

    def take(self, clients: Clients, key: Hashable, rest: float, work: Callable[[], Answer]) -> Answer:
        """The answer of `work`, unless the same (`key`) succeeded within the last `rest` seconds."""
        try:
            with self._flights.alone(id(clients)):
                before = self._done.setdefault(clients, {})
                ago = time.monotonic() - before.get(key, float("-inf"))
                if ago < rest:
                    return done(f"{self._what} was done {ago:.0f} s ago")
                answer = work()
                if answer.status < 300:
                    before[key] = time.monotonic()
                return answer
        except Unavailable as error:
            return Answer(503, str(error), retry_after=error.retry_after)
