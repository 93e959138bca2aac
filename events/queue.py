"""The work queue of the dispatcher: one item, and at most one delivery in flight, per function and key.

Events are hints, so a newer event replaces the waiting one. The merged event is a resync if one of the two is a resync,
if they are about different objects, or if only the newer event contains its object. Otherwise the function might
conclude from the newer event that there is nothing to do, although the replaced event requires work. A reference to an
object may stand for an object that it refers to, such as a provider's Secret.

An event that is delivered again after a failure becomes a resync, too. An event that only waited is marked as repeated,
and a newer event about the object replaces it, because `Triggers.is_reconciled` is false while the function has to
wait. If the newer event is about the primary object, which the function always reads, a waiting event about another
object becomes a repetition instead of a resync.

An event that waits for its next delivery keeps no object, because the function reads the object in any case.
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

from shared.event import RESOURCE, Event
from shared.kube import Object, dig
from shared.triggers import PrimaryRef

from .memory import LIMIT, Ledger, weigh

BACKOFF_BASE, BACKOFF_CAP = 0.2, 60.0
"""Seconds of the first back-off, and of the longest."""
MIN_DELAY = 0.05
"""Seconds before a requeue without a wait, so that no item keeps a worker busy."""


@dataclass(frozen=True)
class DeliveryResult:
    """The result of one delivery: done, requeue (the function waits for something), or failed (back off).

    `after` is the wait in seconds, if the receiver gave one.
    """

    state: Literal["done", "requeue", "failed"]
    after: float | None = None


DONE = DeliveryResult("done")

Lighten = Callable[[str, Event], Event]
"""Called with a function and an event; returns an event without its object that leads the function to the same key."""


@dataclass(eq=False)
class QueueItem:
    """The next delivery, or the one in flight, to `function` for the object `key`.

    Attributes:
        function: The name of the function.
        key: The primary object, as the triggers of the function map it.
        event: The event to deliver.
        state: `ready`: to be delivered now. `waiting`: to be delivered later. `in_flight`: being delivered. `dropped`:
            never to be delivered from this queue.
        failures: Failed deliveries in a row.
        wait: Seconds of the present wait.
    """

    function: str
    key: Hashable
    event: Event
    due_at: float
    """The time at which the event became due: when it arrived, or when its wait ended."""
    state: Literal["ready", "waiting", "in_flight", "dropped"] = "ready"
    failures: int = 0
    wait: float = 0.0
    newer: tuple[Event, float] | None = None
    """The event that arrived during the delivery, and its time of arrival."""
    change: tuple[str, ...] = ()
    """The change that the event is about; see `is_news`."""
    lightened: bool = False
    """Whether the event of an existing object has lost the object while it waits."""
    held: list[Object] = field(default_factory=list)
    """The event data whose memory the queue counts for this item."""

    def __post_init__(self) -> None:
        self.change = change_of(self.event)

    def replace_with(self, newer: Event) -> None:
        """Makes `newer` the event to deliver, merged with the present one."""
        self.change, self.lightened = change_of(newer), False
        only_waits = self.event.repeated and not self.event.resync
        if only_waits and _origin(self.event) == _origin(newer):
            self.event = newer
        elif only_waits and _is_about(self.event, self.key) and not newer.resync:
            self.event = replace(newer, repeated=True)
        else:
            self.event = merge(self.event, newer)


@dataclass(frozen=True)
class Pending:
    """The number of items in each state. `failing` counts the waiting items whose last delivery failed."""

    ready: int = 0
    in_flight: int = 0
    waiting: int = 0
    failing: int = 0


@dataclass
class TokenBucket:
    """A rate limiter: `rate` tokens a second in the long run, `burst` tokens at once."""

    rate: float
    burst: float
    tokens: float = field(init=False)
    updated: float = field(init=False, default=-math.inf)

    def __post_init__(self) -> None:
        self.tokens = self.burst

    def wait(self, now: float) -> float:
        """Takes a token and returns 0, or returns the seconds until the next token."""
        if now > self.updated > -math.inf:
            self.tokens = min(self.burst, self.tokens + (now - self.updated) * self.rate)
        self.updated = now
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) / self.rate


def backoff(failures: int, jitter: Callable[[float, float], float] = random.uniform) -> float:
    """Returns the seconds to wait after so many failures: exponential with full jitter, from 0.2 s to a minute."""
    return jitter(0.0, min(BACKOFF_CAP, BACKOFF_BASE * 2.0 ** min(failures - 1, 30)))


def merge(waiting: Event, newer: Event) -> Event:
    """Returns the event that replaces both."""
    hidden = _origin(waiting) != _origin(newer) or (waiting.object is None and newer.object is not None)
    resync = waiting.resync or newer.resync or hidden
    return replace(newer, resync=True) if resync and not newer.resync else newer


def is_news(waiting: tuple[str, ...], newer: Event) -> bool:
    """Returns whether `newer` concerns another change than `waiting`, and is neither a resync nor the same event."""
    return not newer.resync and waiting != change_of(newer)


def _origin(event: Event) -> tuple[str, ...]:
    return ("", event.group, event.kind, *event.key) if event.change else (event.type, event.subject)


def _is_about(event: Event, primary: Hashable) -> bool:
    """Returns whether the event is a change of this primary object."""
    if not isinstance(primary, PrimaryRef) or primary.resource is None or event.change is None:
        return False
    resource = primary.resource
    return (event.group, event.kind, event.key) == (resource.group, resource.kind, primary.key)


def change_of(event: Event) -> tuple[str, ...]:
    """Returns what identifies the change that an event is about."""
    version = dig(event.object, "metadata.resourceVersion")
    return (event.type, *_origin(event), version or event.id)


def _with_object(event: Event) -> Event:
    """Returns an event with its former type and flags, but without its object."""
    return replace(event, type=f"{RESOURCE}{event.change}", data=event.as_object)


class WorkQueue:
    """The items, first in, first out. Safe to share between threads; only `take` blocks.

    Args:
        rate: Deliveries a second; as many at once may follow an idle time.
        lighten: See `Lighten`; by default events keep their objects.
        limit: Bytes of all events; see `fits`.
        clock: Returns the time in seconds.
        jitter: Returns a random number between two bounds.
    """

    def __init__(
        self,
        *,
        rate: float = 500.0,
        lighten: Lighten = lambda _function, event: event,
        limit: int = LIMIT,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._lighten = lighten
        self._ledger = Ledger(limit)
        self._clock = clock
        self._jitter = jitter
        self._bucket = TokenBucket(rate, max(1.0, rate))
        self._changed = threading.Condition()
        self._items: dict[tuple[str, Hashable], QueueItem] = {}
        self._ready: deque[QueueItem] = deque()
        self._due: list[tuple[float, int, QueueItem]] = []  # may contain waits that have ended early
        self._number = 0
        self._closed = False
        self.coalesced = 0
        """Events that were merged into an existing item."""
        self.last_activity = clock()
        """The time at which an item was last added or finished."""

    def add(self, function: str, key: Hashable, event: Event, *, first: bool = False, size: int | None = None) -> None:
        """Adds an event for immediate delivery; with `first` ahead of all others, so that a chain of steps completes.

        `size` is the result of `weigh` for the event's data, if the caller has it.
        """
        self.add_after(function, key, event, 0.0, first=first, size=size)

    def add_after(
        self,
        function: str,
        key: Hashable,
        event: Event,
        seconds: float,
        *,
        first: bool = False,
        size: int | None = None,
    ) -> None:
        """Adds an event for delivery in `seconds`; merges it, as `add` does, if the item exists."""
        now = self._clock()
        size = weigh(event.data) if size is None else size
        with self._changed:
            self.last_activity = now
            item = self._items.get((function, key))
            if item is None:
                item = self._items[function, key] = QueueItem(function, key, event, now)
                self._schedule(item, seconds, now, first=first)
            else:
                self.coalesced += 1
                self._coalesce(item, event, now)
            self._account(item, size)

    def _coalesce(self, item: QueueItem, event: Event, now: float) -> None:
        if item.state == "in_flight":
            event = merge(item.newer[0], event) if item.newer else event
            item.newer = (event, item.newer[1] if item.newer else now)
            return
        at_once = item.state == "waiting" and (item.failures == 0 or is_news(item.change, event))
        item.replace_with(event)
        if at_once:
            self._schedule(item, 0.0, now)
        elif item.state == "waiting":
            self._drop_object(item)

    def fits(self, size: int) -> bool:
        """Returns whether an event of `size` bytes, as `weigh` estimates it, fits into the limit."""
        return self._ledger.total + size <= self._ledger.limit

    @property
    def bytes(self) -> int:
        """The estimated memory of all events."""
        return self._ledger.total

    def oldest(self) -> float:
        """Returns the seconds since the oldest event that is not delivered yet became due; 0 if there is none."""
        with self._changed:
            due = [item.due_at for item in self._items.values() if item.state in ("ready", "in_flight")]
            return max(0.0, self._clock() - min(due)) if due else 0.0

    def take(self, timeout: float | None = None) -> QueueItem | None:
        """Returns the next item to deliver, None after `timeout` seconds or when closed. Call `finish` with it."""
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
        """Ends a delivery: drops the item or schedules it again, at once if a newer event arrived meanwhile."""
        now = self._clock()
        with self._changed:
            self.last_activity = now
            newer, item.newer = item.newer, None
            item.failures = item.failures + 1 if result.state == "failed" else 0
            if result.state == "done" and newer is None:
                del self._items[item.function, item.key]
                self._release(item)
                return
            # The function must not skip the work because of the event's content.
            if result.state == "requeue":
                item.event = replace(item.event, repeated=True)
            elif result.state == "failed":
                item.event = replace(item.event, resync=True)
            after = 0.0
            if result.state == "failed":
                # The wait that the receiver gave is for the delivered event, not for a newer one.
                named = result.after if newer is None else None
                after = named or backoff(item.failures, self._jitter)
            elif newer is None:
                after = max(MIN_DELAY, result.after or 0.0)
            if newer is not None:
                if result.state == "done":
                    item.event, item.change, item.lightened = newer[0], change_of(newer[0]), False
                else:
                    item.replace_with(newer[0])
            self._schedule(item, after, now)
            if item.state == "waiting":
                self._drop_object(item)
            self._account(item)
            if newer is not None and after == 0.0:
                item.due_at = newer[1]

    @property
    def size(self) -> int:
        """The number of items, those in flight included."""
        return len(self._items)

    def pending(self) -> Pending:
        """Returns the number of items in each state."""
        with self._changed:
            items = list(self._items.values())
            states = [item.state for item in items]
            failing = sum(item.state == "waiting" and item.failures > 0 for item in items)
            return Pending(states.count("ready"), states.count("in_flight"), states.count("waiting"), failing)

    def is_idle(self, ignore_waits_above: float = math.inf) -> bool:
        """Returns whether there are no items, except those that wait for longer than `ignore_waits_above` seconds."""
        with self._changed:
            return all(item.state == "waiting" and item.wait > ignore_waits_above for item in self._items.values())

    def drop_waiting(self, dropped: Callable[[Event], bool]) -> None:
        """Drops the items that wait, also after a failure, and whose event is to be `dropped`."""
        with self._changed:
            for place, item in [*self._items.items()]:
                event = _with_object(item.event) if item.lightened else item.event
                if item.state == "waiting" and dropped(event):
                    item.state = "dropped"
                    del self._items[place]
                    self._release(item)

    def close(self) -> None:
        """Makes every `take` return None, now and later."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # -- under the lock ----------------------------------------------------------------------------------------

    def _drop_object(self, item: QueueItem) -> None:
        """Leaves the object out of an event that waits: after a wait the function reads the object."""
        if item.event.object is not None:
            light = self._lighten(item.function, item.event)
            item.lightened = light.object is None and item.event.change != "delete"
            item.event = light

    def _account(self, item: QueueItem, size: int = 0) -> None:
        """Counts the data that the item holds now. `size` is the bytes of data that is new in the queue."""
        data = [item.event.data, *([item.newer[0].data] if item.newer else [])]
        for each in data:
            self._ledger.hold(each, size)
        for each in item.held:
            self._ledger.release(each)
        item.held = data

    def _release(self, item: QueueItem) -> None:
        for each in item.held:
            self._ledger.release(each)
        item.held = []

    def _schedule(self, item: QueueItem, seconds: float, now: float, *, first: bool = False) -> None:
        """Makes the item ready, or waiting if `seconds` is positive."""
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
        """Makes the due items ready; returns the seconds until the next is due."""
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
