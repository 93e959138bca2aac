"""Shares of threads and slots by tenant, so that one tenant's slow servers and charts leave room for the others.

A tenant is a namespace. A thread cannot be taken from a delivery, so two decisions limit the threads of a tenant. The
first decides whether a delivery begins. The second decides whether it continues at its next request to a workload
cluster, or while it waits for a slot. A refused delivery is sent again later. The limits hold within one process.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Condition, Lock

SLOW = 1.0
"""Seconds after which a delivery counts as slow; younger deliveries may hold any number of threads."""
AGAIN = 5.0
"""Seconds after which a refused event is to be sent again."""
_WINDOW = 10.0
"""Seconds over which used thread-seconds decay, to 37 %."""
_OTHERS = 60.0
"""Seconds for which another tenant counts after its last event."""
_SENDERS = 8
"""The concurrent deliveries of a forwarder. Shares are parts of this number, even if a process has more threads."""
_PATIENCE = 3.0
"""Seconds to wait for an answer in a delivery that takes a thread beyond its tenant's share."""
_LOOK = 0.25
"""Seconds between two looks of a thread that waits for a slot."""


class Overdrawn(Exception):
    """The tenant uses more than its share; the message names the resource. `retry_after` is in seconds."""

    retry_after = AGAIN


@dataclass(frozen=True)
class Use:
    """The part of a process that one tenant uses.

    Attributes:
        threads: The threads that tenants share.
        ages: Seconds since the start of each of the tenant's other deliveries in progress.
        used: Thread-seconds in the last `_WINDOW`, deliveries in progress included.
        others: Whether another tenant had an event lately.
    """

    threads: int
    ages: Sequence[float] = ()
    used: float = 0.0
    others: bool = False

    @property
    def share(self) -> int:
        """The threads for slow deliveries: half of them beside other tenants, else three quarters."""
        return max(1, self.threads // 2 if self.others else self.threads - math.ceil(self.threads / 4))

    @property
    def crowds(self) -> bool:
        """Whether one more delivery takes threads that others may need soon."""
        return self.others and len(self.ages) >= self.share

    def exceeds(self, age: float) -> bool:
        """Returns whether a delivery that began `age` seconds ago must end; with 0, whether it must not begin."""
        if age == 0.0 and self.others and self.used > self.share * _WINDOW:
            return True
        older = sum(1 for other in self.ages if other >= max(age, SLOW))
        return (age == 0.0 or age >= SLOW) and older >= self.share


@dataclass(frozen=True, eq=False)
class Delivery:
    """One event in progress."""

    tenant: str
    started: float


class Shares:
    """The deliveries of one process by tenant. Safe to share between threads."""

    def __init__(self, threads: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._threads, self._clock = threads, clock
        self._lock = Lock()
        self._running: set[Delivery] = set()
        self._used: dict[str, tuple[float, float]] = {}
        """The decayed thread-seconds of each tenant's ended deliveries, and the time of the last decay."""

    @contextmanager
    def delivery(self, tenant: str) -> Iterator[Delivery]:
        """Counts a delivery for a tenant while the block runs; "" is the installation itself, which has no limit.

        Raises `Overdrawn` if the delivery must not begin.
        """
        with self._lock:
            now = self._clock()
            exceeds = bool(tenant) and self._use(tenant, None, now).exceeds(0.0)
            self._add(tenant, 0.0, now)
            if exceeds:
                raise self._overdrawn(tenant)
            delivery = Delivery(tenant, now)
            self._running.add(delivery)
        token = _current.set(delivery)
        try:
            yield delivery
        finally:
            _current.reset(token)
            with self._lock:
                self._running.discard(delivery)
                now = self._clock()
                self._add(tenant, now - delivery.started, now)

    def exceeds(self, delivery: Delivery | None) -> bool:
        """Returns whether a delivery has to end, because its tenant holds too many threads; False without one."""
        if delivery is None or not delivery.tenant:
            return False
        with self._lock:
            now = self._clock()
            age = now - delivery.started
            return age >= SLOW and self._use(delivery.tenant, delivery, now).exceeds(age)

    def patience(self, delivery: Delivery | None, seconds: float) -> float:
        """Returns the seconds to wait for an answer, fewer than `seconds` while the tenant crowds out others."""
        if delivery is None or not delivery.tenant:
            return seconds
        with self._lock:
            return min(seconds, _PATIENCE) if self._use(delivery.tenant, delivery, self._clock()).crowds else seconds

    def check(self, delivery: Delivery | None) -> None:
        """Raises `Overdrawn` if the delivery has to end."""
        if delivery is not None and self.exceeds(delivery):
            raise self._overdrawn(delivery.tenant)

    def _overdrawn(self, tenant: str) -> Overdrawn:
        return Overdrawn(f"namespace {tenant} uses more than its share of the threads: its servers or charts are slow")

    def _use(self, tenant: str, own: Delivery | None, now: float) -> Use:
        ages = [now - other.started for other in self._running if other.tenant == tenant and other is not own]
        used = self._decayed(tenant, now) + sum(min(age, _WINDOW) for age in ages)
        others = any(other not in (tenant, "") and now - at < _OTHERS for other, (_, at) in self._used.items())
        return Use(self._threads, ages, used, others)

    def _decayed(self, tenant: str, now: float) -> float:
        used, at = self._used.get(tenant, (0.0, now))
        return used * math.exp((at - now) / _WINDOW)

    def _add(self, tenant: str, seconds: float, now: float) -> None:
        if tenant not in self._used:  # each new thread examines all of them
            self._used = {name: entry for name, entry in self._used.items() if now - entry[1] < _OTHERS}
        self._used[tenant] = self._decayed(tenant, now) + seconds, now


_current: ContextVar[Delivery | None] = ContextVar("delivery", default=None)


def current() -> Delivery | None:
    """Returns the delivery that this thread works for; None outside of one, and in threads that it starts."""
    return _current.get()


SHARES = Shares(min(int(os.environ.get("THREADS", "8")), _SENDERS))


# -- slots -----------------------------------------------------------------------------------------------------


class Turns:
    """Slots for which tenants take turns. One tenant has at most all but one; outside of deliveries it has all."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._changed = Condition()
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[object]] = {}
        """The waiters by tenant; the first tenant has had no turn for the longest time."""

    @contextmanager
    def slot(self, seconds: float, refusal: Exception, delivery: Delivery | None = None) -> Iterator[None]:
        """Holds a slot for a delivery, by default for this thread's.

        Raises `refusal` if no slot becomes free within `seconds`, or if the delivery has to end.
        """
        delivery = delivery or current()
        tenant = delivery.tenant if delivery else ""
        if not self._take(tenant, seconds, delivery):
            raise refusal
        try:
            yield
        finally:
            with self._changed:
                self._held[tenant] -= 1
                self._held = +self._held
                self._changed.notify_all()

    def _take(self, tenant: str, seconds: float, delivery: Delivery | None) -> bool:
        until, ticket = time.monotonic() + seconds, object()
        with self._changed:
            self._waiting.setdefault(tenant, deque()).append(ticket)
            try:
                while not self._is_next(tenant, ticket):
                    left = until - time.monotonic()
                    if left <= 0 or SHARES.exceeds(delivery):
                        return False
                    self._changed.wait(min(left, _LOOK))
                self._held[tenant] += 1
                self._waiting[tenant] = self._waiting.pop(tenant)  # to the end
                return True
            finally:
                self._waiting[tenant].remove(ticket)
                if not self._waiting[tenant]:
                    del self._waiting[tenant]
                self._changed.notify_all()

    def _is_next(self, tenant: str, ticket: object) -> bool:
        waiting = {name: len(tickets) for name, tickets in self._waiting.items()}
        return tenant in next_turns(waiting, self._held, self._size) and self._waiting[tenant][0] is ticket


def next_turns(waiting: Mapping[str, int], held: Mapping[str, int], size: int) -> list[str]:
    """Returns which tenants get a free slot next, in order.

    Args:
        waiting: The number of waiters by tenant; the first tenant has had no turn for the longest time.
        held: The slots that each tenant holds.
        size: The number of slots.
    """
    free = size - sum(held.values())
    most = {tenant: size if not tenant or size == 1 else size - 1 for tenant in waiting}
    return [tenant for tenant in waiting if held.get(tenant, 0) < most[tenant]][: max(0, free)]
