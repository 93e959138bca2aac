"""Rounds: all kinds are listed at about the same time, first after a start and then at each resync.

Listed objects are reported to the round, which may need objects of several kinds to decide about one.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from shared.event import Event
from shared.kube import Object

from .specs import InformerSpec

OnChange = Callable[[Event, Collection[str]], object]
"""Called with each change and the names of the functions that it is for."""


class Round(Protocol):
    """Receives the listed objects of one round, from the threads of the informers."""

    def see(self, spec: InformerSpec, obj: Object) -> None:
        """Receives each listed object, before the events about it."""

    def report(self, event: Event, functions: Sequence[str]) -> None:
        """Receives the event for a listed object, and the functions whose watches match it."""

    def end(self, spec: InformerSpec) -> None:
        """Receives that a kind is listed completely, or that it is not served."""

    def wait(self, stop: threading.Event) -> None:
        """Returns once the round has decided about all reports; changes follow afterwards."""


@dataclass(frozen=True)
class PlainRound:
    """A round that forwards every event at once.

    `is_referenced` is called with a function and an event, see `Watcher.is_referenced`.
    """

    on_change: OnChange
    is_referenced: Callable[[str, Event], bool]

    def see(self, spec: InformerSpec, obj: Object) -> None:
        """Does nothing."""

    def report(self, event: Event, functions: Sequence[str]) -> None:
        """Forwards the event."""
        if referring := [name for name in functions if self.is_referenced(name, event)]:
            self.on_change(event, referring)

    def end(self, spec: InformerSpec) -> None:
        """Does nothing."""

    def wait(self, stop: threading.Event) -> None:
        """Returns at once."""


@dataclass(frozen=True)
class NumberedRound:
    """A round, its number, and whether it is a resync."""

    number: int
    resync: bool
    round: Round


class Rounds:
    """Determines when a round begins: at the start, after each interval, and on request.

    Args:
        every: Seconds from one round to the next; varied by up to a tenth.
        begin: Returns a new round; called with whether it is a resync.
    """

    def __init__(self, every: float, begin: Callable[[bool], Round]) -> None:
        self._every = every
        self._begin = begin
        self._lock = threading.Lock()
        self._current: NumberedRound | None = None
        self._next = 0.0

    def current(self) -> NumberedRound:
        """Returns the present round. Begins it first if one is due."""
        with self._lock:
            if self._current is None:
                return self._open(resync=False)
            return self._current if time.monotonic() < self._next else self._open(resync=True)

    def restart(self) -> None:
        """Begins a round that reports all objects as added, like the first round."""
        with self._lock:
            self._open(resync=False)

    def seconds_left(self, number: int) -> float:
        """Returns the seconds until the next round begins; 0 if it has begun."""
        with self._lock:
            begun = self._current is not None and self._current.number != number
            return 0.0 if begun else max(0.0, self._next - time.monotonic())

    def _open(self, *, resync: bool) -> NumberedRound:
        number = self._current.number + 1 if self._current else 1
        self._current = NumberedRound(number, resync, self._begin(resync))
        self._next = time.monotonic() + self._every * random.uniform(0.9, 1.1)  # noqa: S311 - jitter
        return self._current
