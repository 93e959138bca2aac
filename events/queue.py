"""What waits to be delivered: one entry, and at most one delivery in flight, per function and key.

Events are hints, so a newer one takes the place of the one that waits. What an entry still owes survives that: if
either asks for a full look, or they tell of different objects, the survivor asks for one (`resync`), since a function
may answer "nothing new" to one hint while the other was the one that mattered. An event that is delivered again does
so too.
"""

from __future__ import annotations

import heapq
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Literal

from shared.event import Event
from shared.kube import dig

BACKOFF_BASE, BACKOFF_CAP = 0.2, 60.0
"""Seconds: the first back-off, and the longest."""
MIN_DELAY = 0.05
"""Seconds: what "come back at once" means, so that nobody can keep a worker to itself."""


@dataclass(frozen=True)
class DeliveryResult:
    """What a delivery came to: `again` is a wait that the function asked for, `failed` one that a failure needs.

    `after` is the wait in seconds where the receiver named one.
    """

    state: Literal["done", "requeue", "failed"]
    after: float | None = None


DONE = DeliveryResult("done")


@dataclass(eq=False)
class QueueItem:
    """A function's next (or present) look at `key`."""

    function: str
    key: Hashable
    event: Event
    due_at: float
    """When the event became due: arrived, or was to be delivered again."""
    state: Literal["ready", "waiting", "in_flight"] = "ready"
    failures: int = 0
    wait: float = 0.0
    newer: tuple[Event, float] | None = None
    """What arrived during the delivery, and when."""


@dataclass(frozen=True)
class Pending:
    """How many entries there are in each state; `failing` of the waiting ones do so after a failure."""

    ready: int = 0
    in_flight: int = 0
    waiting: int = 0
    failing: int = 0


@dataclass
class TokenBucket:
    """At most `rate` a second in the long run, and `burst` at once."""

    rate: float
    burst: float
    tokens: float = field(init=False)
    updated: float = field(init=False, default=-math.inf)

    def __post_init__(self) -> None:
        self.tokens = self.burst

    def wait(self, now: float) -> float:
        """Seconds until the next token is there; 0 takes it."""
        if now > self.updated > -math.inf:
            self.tokens = min(self.burst, self.tokens + (now - self.updated) * self.rate)
        self.updated = now
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) / self.rate


def backoff(failures: int, jitter: Callable[[float, float], float] = random.uniform) -> float:
    """Exponential with full jitter: the n-th failure waits up to 0.2 s * 2^(n-1), at most a minute."""
    return jitter(0.0, min(BACKOFF_CAP, BACKOFF_BASE * 2.0 ** min(failures - 1, 30)))


def merge(waiting: Event, newer: Event) -> Event:
    """The one event that stands for both."""
    owed = waiting.resync or newer.resync or _origin(waiting) != _origin(newer)
    return replace(newer, resync=True) if owed and not newer.resync else newer


def is_news(waiting: Event, newer: Event) -> bool:
    """True if `newer` tells of a change that `waiting` did not: a resync or a repetition does not."""
    return not newer.resync and _change(waiting) != _change(newer)


def _origin(event: Event) -> tuple[str, ...]:
    return ("", event.group, event.kind, *event.key) if event.change else (event.type, event.subject)


def _change(event: Event) -> tuple[str, ...]:
    version = dig(event.object, "metadata.resourceVersion")
    return (event.type, *_origin(event), version or event.id)


class WorkQueue:
    """The entries, first come first served. Safe to share between threads; `take` is the only call that blocks."""

    def __init__(
        self,
        *,
        rate: float = 500.0,
        burst: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        self._bucket = TokenBucket(rate, max(1.0, burst or rate))
        self._changed = threading.Condition()
        self._items: dict[tuple[str, Hashable], QueueItem] = {}
        self._ready: deque[QueueItem] = deque()
        self._due: list[tuple[float, int, QueueItem]] = []  # what is due, whether or not the entry still waits for it
        self._number = 0
        self._closed = False
        self.coalesced = 0
        """Events that were taken up by an entry that was there already."""
        self.last_activity = clock()
        """When something was last added or finished."""

    def add(self, function: str, key: Hashable, event: Event, *, first: bool = False) -> None:
        """With `first` it is the next to be delivered: what has begun is finished before something else begins."""
        self.add_after(function, key, event, 0.0, first=first)

    def add_after(self, function: str, key: Hashable, event: Event, seconds: float, *, first: bool = False) -> None:
        """Delivers the event in `seconds`; where an entry is there already, like `add`."""
        now = self._clock()
        with self._changed:
            self.last_activity = now
            item = self._items.get((function, key))
            if item is None:
                item = self._items[function, key] = QueueItem(function, key, event, now)
                self._schedule(item, seconds, now, first=first)
                return
            self.coalesced += 1
            if item.state == "in_flight":
                event = merge(item.newer[0], event) if item.newer else event
                item.newer = (event, item.newer[1] if item.newer else now)
                return
            at_once = item.state == "waiting" and (item.failures == 0 or is_news(item.event, event))
            item.event = merge(item.event, event)
            if at_once:
                self._schedule(item, 0.0, now)

    def take(self, timeout: float | None = None) -> QueueItem | None:
        """The next entry to deliver, to be given back to `finish`; None after `timeout` or when closed."""
        with self._changed:
            deadline = math.inf if timeout is None else self._clock() + timeout
            while not self._closed:
                now = self._clock()
                pause = self._promote(now)
                if self._ready:
                    pause = self._bucket.wait(now)
                    if pause <= 0:
                        item = self._ready.popleft()
                        item.state = "in_flight"
                        return item
                if now >= deadline:
                    break
                pause = min(pause, deadline - now)
                self._changed.wait(None if pause == math.inf else pause)
            return None

    def finish(self, item: QueueItem, result: DeliveryResult) -> None:
        """Ends a delivery: the entry is done, or comes again, at once if something newer arrived meanwhile."""
        now = self._clock()
        with self._changed:
            self.last_activity = now
            newer, item.newer = item.newer, None
            item.failures = item.failures + 1 if result.state == "failed" else 0
            if result.state == "done" and newer is None:
                del self._items[item.function, item.key]
                self._changed.notify_all()
                return
            if result.state != "done":  # a full look is still owed
                item.event = replace(item.event, resync=True)
            after = 0.0
            if result.state == "failed":
                # What the receiver asked for was about the event before; a newer one need not wait that long.
                named = result.after if newer is None else None
                after = named or backoff(item.failures, self._jitter)
            elif newer is None:
                after = max(MIN_DELAY, result.after or 0.0)
            if newer is not None:
                item.event = newer[0] if result.state == "done" else merge(item.event, newer[0])
            self._schedule(item, after, now)
            if newer is not None and after == 0.0:
                item.due_at = newer[1]

    def pending(self) -> Pending:
        with self._changed:
            items = list(self._items.values())
            states = [item.state for item in items]
            failing = sum(item.state == "waiting" and item.failures > 0 for item in items)
            return Pending(states.count("ready"), states.count("in_flight"), states.count("waiting"), failing)

    def is_idle(self, ignore_waits_above: float = math.inf) -> bool:
        """True if nothing is left to do but entries whose wait is longer than `below` seconds."""
        with self._changed:
            return all(item.state == "waiting" and item.wait > ignore_waits_above for item in self._items.values())

    def close(self) -> None:
        """Ends every `take`, now and later."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # -- under the lock ----------------------------------------------------------------------------------------

    def _schedule(self, item: QueueItem, seconds: float, now: float, *, first: bool = False) -> None:
        item.wait, item.due_at = max(0.0, seconds), now + max(0.0, seconds)
        if seconds <= 0:
            item.state = "ready"
            (self._ready.appendleft if first else self._ready.append)(item)
        else:
            item.state = "waiting"
            self._number += 1
            heapq.heappush(self._due, (item.due_at, self._number, item))
        self._changed.notify()

    def _promote(self, now: float) -> float:
        """Moves what is due to the ready ones; the seconds until the next is due."""
        while self._due:
            due, _, item = self._due[0]
            stale = item.state != "waiting" or item.due_at != due
            if not stale and due > now:
                return due - now
            heapq.heappop(self._due)
            if not stale:
                item.state = "ready"
                self._ready.append(item)
        return math.inf
