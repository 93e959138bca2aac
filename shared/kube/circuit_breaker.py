"""A circuit breaker for workload API servers: limits the time that a process spends on servers that do not answer.

A thread that waits for a dead server cannot serve other requests. After a slow failure the breaker stays open for a
while: no request is sent. A server is unproven if it never answered, failed slowly within the last minute, or recently
answered slowly. Requests to all unproven servers share a few slots, for which tenants take turns. The state lives in
the process and only saves time: nothing depends on it, and another process starts without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock

from ..fairness import Delivery, Turns
from .errors import Unavailable

MAX_UNPROVEN_REQUESTS = 3
"""The maximum number of concurrent requests to all unproven servers together; fewer than a process has threads."""
_SLOT_WAIT = 0.25
"""Seconds that a request waits for one of these slots."""
SLOW_SLOT_WAIT = 10.0
"""The same for a server that answers slowly, so that its rollouts continue with fewer concurrent requests."""

_SLOW = 1.0
"""Seconds after which a request counts as slow; fast failures, such as a refused connection, cost nothing."""
_FIRST_PAUSE, _MAX_PAUSE = 5.0, 60.0
"""Seconds without requests after the first slow failure, and the maximum."""
_MAX_DOUBLINGS = 10
"""Bounds the exponent, far above the longest pause."""
_RECOVERED = 60.0
"""A server counts as proven again after so many seconds without a slow failure."""

_WEIGHT = 0.5
"""The weight of the last answer in the mean duration of answers, so that one slow answer counts only briefly."""

_slots = Turns(MAX_UNPROVEN_REQUESTS)


class NotSent(Unavailable):
    """The request was not sent: the breaker is open, all slots are taken, or the time limit had passed before."""


class CircuitBreaker:
    """The breaker of one server. Safe to share between threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, slots: Turns = _slots) -> None:
        self._clock, self._slots = clock, slots
        self._lock = Lock()
        self._answers = False
        self._seconds = 0.0
        """The mean time of the last answers."""
        self._failures = 0
        self._failed_at = float("-inf")
        self._open_until = float("-inf")

    @contextmanager
    def request(self, refusal: str, delivery: Delivery | None = None) -> Iterator[None]:
        """Wraps one request of a delivery; an exception in the block counts as a failure of the request.

        Raises `NotSent` with a message that begins with `refusal`.
        """
        started = self._clock()
        if started < self._open_until:
            seconds = self._open_until - started
            message = f"{refusal} for the next {seconds:.0f} s, because earlier requests timed out"
            raise NotSent(message, retry_after=seconds)
        with nullcontext() if self._proven else self._slot(refusal, delivery):
            try:
                yield
            except BaseException:
                self._record_failure(started)
                raise
            else:
                self._record_success(started)

    @property
    def _proven(self) -> bool:
        return self._answers and not self._failures and self._seconds <= _SLOW

    def _slot(self, refusal: str, delivery: Delivery | None) -> AbstractContextManager[None]:
        crowded = NotSent(f"{refusal} now, because it or other API servers do not answer", retry_after=1.0)
        wait = SLOW_SLOT_WAIT if self._answers and not self._failures else _SLOT_WAIT
        return self._slots.slot(wait, crowded, delivery)

    def record_overrun(self) -> None:
        """Records a slow failure for a series of requests that took too long together, though each was in time."""
        self._record_failure(self._clock() - 2 * _SLOW)

    def _record_failure(self, started: float) -> None:
        with self._lock:
            now = self._clock()
            if now - started > _SLOW and started >= self._failed_at:  # concurrent failures count as one
                self._failures += 1
                self._failed_at = now
                self._open_until = now + min(_FIRST_PAUSE * 2.0 ** min(self._failures - 1, _MAX_DOUBLINGS), _MAX_PAUSE)

    def _record_success(self, started: float) -> None:
        with self._lock:
            now = self._clock()
            self._seconds += _WEIGHT * (now - started - self._seconds) if self._answers else now - started
            self._answers = True
            if now - self._failed_at > _RECOVERED:
                self._failures = 0
