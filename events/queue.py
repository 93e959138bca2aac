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

BASE, CAP = 0.2, 60.0
"""Seconds: the first back-off, and the longest."""
SHORTEST = 0.05
"""Seconds: what "come back at once" means, so that nobody can keep a worker to itself."""


@dataclass(frozen=True)
class Outcome:
    """What a delivery came to: `again` is a wait that the function asked for, `failed` one that a failure needs.

    `after` is the wait in seconds where the receiver named one.
    """

    state: Literal["done", "again", "failed"]
    after: float | None = None


DONE = Outcome("done")


@dataclass(eq=False)
class Entry:
    """A function's next (or present) look at `key`."""

    function: str
    key: Hashable
    event: Event
    since: float
    """When the event became due: arrived, or was to be delivered again."""
    state: Literal["ready", "waiting", "flying"] = "ready"
    failures: int = 0
    wait: float = 0.0
    newer: tuple[Event, float] | None = None
    """What arrived during the delivery, and when."""


@dataclass(frozen=True)
class Pending:
    """How many entries there are in each state; `failing` of the waiting ones do so after a failure."""

    ready: int = 0
    flying: int = 0
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
    return jitter(0.0, min(CAP, BASE * 2.0 ** min(failures - 1, 30)))


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
        self._entries: dict[tuple[str, Hashable], Entry] = {}
        self._ready: deque[Entry] = deque()
        self._due: list[tuple[float, int, Entry]] = []  # what is due, whether or not the entry still waits for it
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
            entry = self._entries.get((function, key))
            if entry is None:
                entry = self._entries[function, key] = Entry(function, key, event, now)
                self._schedule(entry, seconds, now, first=first)
                return
            self.coalesced += 1
            if entry.state == "flying":
                event = merge(entry.newer[0], event) if entry.newer else event
                entry.newer = (event, entry.newer[1] if entry.newer else now)
                return
            at_once = entry.state == "waiting" and (entry.failures == 0 or is_news(entry.event, event))
            entry.event = merge(entry.event, event)
            if at_once:
                self._schedule(entry, 0.0, now)

    def take(self, timeout: float | None = None) -> Entry | None:
        """The next entry to deliver, to be given back to `finish`; None after `timeout` or when closed."""
        with self._changed:
            deadline = math.inf if timeout is None else self._clock() + timeout
            while not self._closed:
                now = self._clock()
                pause = self._promote(now)
                if self._ready:
                    pause = self._bucket.wait(now)
                    if pause <= 0:
                        entry = self._ready.popleft()
                        entry.state = "flying"
                        return entry
                if now >= deadline:
                    break
                pause = min(pause, deadline - now)
                self._changed.wait(None if pause == math.inf else pause)
            return None

    def finish(self, entry: Entry, outcome: Outcome) -> None:
        """Ends a delivery: the entry is done, or comes again, at once if something newer arrived meanwhile."""
        now = self._clock()
        with self._changed:
            self.last_activity = now
            newer, entry.newer = entry.newer, None
            entry.failures = entry.failures + 1 if outcome.state == "failed" else 0
            if outcome.state == "done" and newer is None:
                del self._entries[entry.function, entry.key]
                self._changed.notify_all()
                return
            if outcome.state != "done":  # a full look is still owed
                entry.event = replace(entry.event, resync=True)
            after = 0.0
            if outcome.state == "failed":
                # What the receiver asked for was about the event before; a newer one need not wait that long.
                named = outcome.after if newer is None else None
                after = named or backoff(entry.failures, self._jitter)
            elif newer is None:
                after = max(SHORTEST, outcome.after or 0.0)
            if newer is not None:
                entry.event = newer[0] if outcome.state == "done" else merge(entry.event, newer[0])
            self._schedule(entry, after, now)
            if newer is not None and after == 0.0:
                entry.since = newer[1]

    def pending(self) -> Pending:
        with self._changed:
            entries = list(self._entries.values())
            states = [entry.state for entry in entries]
            failing = sum(entry.state == "waiting" and entry.failures > 0 for entry in entries)
            return Pending(states.count("ready"), states.count("flying"), states.count("waiting"), failing)

    def settled(self, below: float = math.inf) -> bool:
        """True if nothing is left to do but entries whose wait is longer than `below` seconds."""
        with self._changed:
            return all(entry.state == "waiting" and entry.wait > below for entry in self._entries.values())

    def close(self) -> None:
        """Ends every `take`, now and later."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # -- under the lock ----------------------------------------------------------------------------------------

    def _schedule(self, entry: Entry, seconds: float, now: float, *, first: bool = False) -> None:
        entry.wait, entry.since = max(0.0, seconds), now + max(0.0, seconds)
        if seconds <= 0:
            entry.state = "ready"
            (self._ready.appendleft if first else self._ready.append)(entry)
        else:
            entry.state = "waiting"
            self._number += 1
            heapq.heappush(self._due, (entry.since, self._number, entry))
        self._changed.notify()

    def _promote(self, now: float) -> float:
        """Moves what is due to the ready ones; the seconds until the next is due."""
        while self._due:
            due, _, entry = self._due[0]
            stale = entry.state != "waiting" or entry.since != due
            if not stale and due > now:
                return due - now
            heapq.heappop(self._due)
            if not stale:
                entry.state = "ready"
                self._ready.append(entry)
        return math.inf
