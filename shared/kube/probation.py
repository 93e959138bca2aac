"""How much of a process's time goes to workload API servers that do not answer.

A thread that waits for a dead server is missed by all the others. So a server that held somebody up is left alone for
a while, and those that have not proven themselves lately (never answered, or held somebody up within the last minute)
share a few places. This is kept in the process and only saves time: whoever asks another process is served there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import BoundedSemaphore, Lock

from .errors import Unavailable
from .places import held

PLACES = 3
"""Requests at a time, to all servers on probation together: fewer than a process has threads."""
_TURN = 0.25
"""Seconds that a request waits for one of them."""

_LONG = 1.0
"""Seconds from which on a failed request has held somebody up; a refused connection costs nothing."""
_FIRST, _LONGEST = 5.0, 60.0
"""Seconds that a server is left alone after it held somebody up: the first time, and at most."""
_DOUBLINGS = 10
"""More than lead to the longest pause: powers of failures without bound would overflow."""
_RECOVERED = 60.0

_places = BoundedSemaphore(PLACES)


class LeftAlone(Unavailable):
    """Nothing was sent: the server held others up before, or too many such servers are being asked."""


class Probation:
    """What one server did so far. Safe to share between threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, places: BoundedSemaphore = _places) -> None:
        self._clock, self._places = clock, places
        self._lock = Lock()
        self._proven = False
        self._failures = 0
        self._failed = float("-inf")
        self._until = float("-inf")

    @contextmanager
    def request(self, refusal: str) -> Iterator[None]:
        """Around one request; an exception from within is its failure. Raises `LeftAlone`, beginning with `refusal`."""
        started = self._clock()
        if started < self._until:
            seconds = self._until - started
            raise LeftAlone(f"{refusal} for {seconds:.0f} s: it kept requests waiting", retry_after=seconds)
        with nullcontext() if self._proven and not self._failures else self._place(refusal):
            try:
                yield
            except BaseException:
                self._note_failure(started)
                raise
            else:
                self._note_success()

    def _place(self, refusal: str) -> AbstractContextManager[None]:
        crowded = LeftAlone(f"{refusal}: too many other API servers do not answer", retry_after=1.0)
        return held(self._places, _TURN, crowded)

    def overrun(self) -> None:
        """Each request was in time, but not all of them together."""
        self._note_failure(self._clock() - 2 * _LONG)

    def _note_failure(self, started: float) -> None:
        with self._lock:
            now = self._clock()
            if now - started > _LONG and started >= self._failed:  # several at once are one failure
                self._failures += 1
                self._failed = now
                self._until = now + min(_FIRST * 2.0 ** min(self._failures - 1, _DOUBLINGS), _LONGEST)

    def _note_success(self) -> None:
        if self._proven and not self._failures:
            return
        with self._lock:
            self._proven = True
            if self._clock() - self._failed > _RECOVERED:
                self._failures = 0
