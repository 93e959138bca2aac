"""Delivers events: finds the functions that an event is for, calls them, and requeues by their answers."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shared import metrics, tracing
from shared.event import Event
from shared.runtime.answer import Answer
from shared.runtime.spans import describe_delivery, describe_event
from shared.triggers import Triggers

from .delivery import Deliver
from .health import CallHealth
from .memory import LIMIT, weigh, without_objects
from .queue import DONE, DeliveryResult, Pending, QueueItem, WorkQueue

log = logging.getLogger("capi-functions.events")

OnDelivery = Callable[[str, Event, Answer, float], None]
"""Called after each delivery with function, event, answer, and the seconds that the call took."""
OnDeadLetter = Callable[[str, Event, Answer], None]
"""Called with function, event and answer for each event that will not be redelivered."""

_REFUSED = (401, 403)
"""The receiver, or a mesh before it, refuses the sender, not the event: a token is not mounted yet, or has expired."""
_RETRYABLE = (404, 408, 409, 429, *_REFUSED)  # besides 5xx: a Knative broker's, and the refusals
_MAX_LATENCIES = 100_000
_MAX_ITEMS = 20_000
"""With more queued items than this, events of other senders are refused."""

Reduce = Callable[[str, Event], Sequence[Event]]
"""Called with a function and an event; returns the replacement events without objects, see `without_objects`."""


class QueueFull(Exception):
    """The queue has no room for an event that its sender can send again."""


@dataclass
class Stats:
    """The figures of a dispatcher since its start."""

    delivered: int = 0
    by_status: Counter[int] = field(default_factory=Counter)
    dead_letters: int = 0
    coalesced: int = 0
    """Events that were merged into a queued one."""
    latencies: list[float] = field(default_factory=list)
    """Seconds from the time at which an event was due to its delivery, of the latest hundred thousand."""

    def percentile(self, percent: float) -> float:
        """Returns the latency percentile in seconds; NaN without deliveries."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else math.nan


def delivery_result(answer: Answer) -> DeliveryResult:
    """Returns what an answer means for the queue. A rejected event is done, because a retry cannot help."""
    if answer.status < 300:
        return DONE if answer.retry_after is None else DeliveryResult("requeue", answer.retry_after)
    if is_rejection(answer):
        return DONE
    return DeliveryResult("failed", answer.retry_after)


def is_rejection(answer: Answer) -> bool:
    """Returns whether the function rejects the event itself, so that it goes to the dead letters."""
    return 400 <= answer.status < 500 and answer.status not in _RETRYABLE


class Dispatcher:
    """Delivers submitted events, one call at a time per function and key, until `stop`.

    Args:
        triggers: The functions by name.
        deliver: Hands an event to a function.
        workers: Calls at a time.
        rate: Calls a second.
        on_delivery: Called in the worker threads, as is `on_dead_letter`.
        on_dead_letter: See `OnDeadLetter`.
        reduce: See `Reduce`; by default it follows the triggers.
        limit: Bytes of all queued events. Beyond the limit events lose their objects.
    """

    def __init__(
        self,
        triggers: Mapping[str, Triggers],
        deliver: Deliver,
        *,
        workers: int = 8,
        rate: float = 500.0,
        on_delivery: OnDelivery | None = None,
        on_dead_letter: OnDeadLetter | None = None,
        reduce: Reduce | None = None,
        limit: int = LIMIT,
    ) -> None:
        self._triggers = triggers
        self._reduce = reduce or (lambda function, event: without_objects(event, [triggers[function]]))
        self._deliver = deliver
        self._on_delivery = on_delivery
        self._on_dead_letter = on_dead_letter
        self._queue = WorkQueue(rate=rate, lighten=self._lighten, limit=limit)
        self._stopped = False
        self._calls: dict[int, CallHealth] = {}
        self.last_progress = time.monotonic()
        """The time at which a call last began or ended."""
        self._lock = threading.Lock()
        self._stats = Stats()
        self._latencies: deque[float] = deque(maxlen=_MAX_LATENCIES)
        self._threads = [
            threading.Thread(target=self._work, name=f"deliver-{number}", daemon=True) for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, event: Event, functions: Collection[str] | None = None, *, first: bool = False) -> int:
        """Queues the event for each function that it is for (of `functions`, if given) and returns their number.

        With `first` it is delivered before all queued events.
        """
        concerned, size = 0, None
        for name in self._triggers if functions is None else functions:
            ref = self._triggers[name].find_ref(event)
            if ref is None:
                continue
            event = _traced(event)
            size = weigh(event.data) if size is None else size
            concerned += 1
            if self._queue.fits(size):
                self._queue.add(name, ref, event, first=first, size=size)
                continue
            for light in self._reduce(name, event):
                if (place := self._triggers[name].find_ref(light)) is not None:
                    self._queue.add(name, place, light, first=first)
            if event.object is not None:
                metrics.REDUCED.labels(name).inc()
        return concerned

    def receive(self, event: Event, functions: Collection[str] | None = None) -> None:
        """Like `submit`, for an event that its sender can send again. Raises `QueueFull` if there is no room for it."""
        if self._queue.size >= _MAX_ITEMS or not (event.object or self._queue.fits(weigh(event.data))):
            raise QueueFull("the queue of the forwarder is full: send the event again later")
        self.submit(event, functions)

    def _lighten(self, function: str, event: Event) -> Event:
        """Returns the event without its object; with the object if more than one event would have to replace it."""
        light, find_ref = self._reduce(function, event), self._triggers[function].find_ref
        if len(light) != 1 or find_ref(light[0]) != find_ref(event):
            return event
        return replace(light[0], repeated=event.repeated, resync=light[0].resync or event.resync)

    @property
    def calls(self) -> list[CallHealth]:
        """The calls in progress."""
        return [*self._calls.copy().values()]

    @property
    def bytes(self) -> int:
        """The estimated memory of all queued events."""
        return self._queue.bytes

    def oldest(self) -> float:
        """Returns the seconds since the oldest event that is not delivered yet became due; 0 if there is none."""
        return self._queue.oldest()

    @property
    def has_workers(self) -> bool:
        """Whether all threads that deliver events run, until `stop`."""
        return self._stopped or all(thread.is_alive() for thread in self._threads)

    def drain(
        self,
        timeout: float,
        ignore_waits_above: float = math.inf,
        *,
        quiet: float = 0.0,
        dropped: Callable[[Event], bool] = lambda _event: False,
    ) -> bool:
        """Waits until the queue is idle for `quiet` seconds in a row.

        Args:
            timeout: Seconds to wait at most.
            ignore_waits_above: Items that are due in more than this many seconds are left out; `pending` counts them.
            quiet: Seconds without a new or finished item.
            dropped: Returns whether to drop an event that waits or whose delivery has failed.

        Returns:
            Whether the queue was idle within the timeout.
        """
        deadline = time.monotonic() + timeout
        while True:
            self._queue.drop_waiting(dropped)
            idle = self._queue.is_idle(ignore_waits_above)
            if idle and time.monotonic() - self._queue.last_activity >= quiet:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.005)

    @property
    def size(self) -> int:
        """The number of queued items, those in flight included."""
        return self._queue.size

    def pending(self) -> Pending:
        """Returns the number of queued items in each state."""
        return self._queue.pending()

    @property
    def stats(self) -> Stats:
        """A copy of the figures so far."""
        with self._lock:
            now = self._stats
            return Stats(
                now.delivered, Counter(now.by_status), now.dead_letters, self._queue.coalesced, list(self._latencies)
            )

    def stop(self, timeout: float = 5.0) -> None:
        """Drops queued items and waits for the calls in flight, for at most `timeout` seconds."""
        self._stopped = True
        self._queue.close()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        """Delivers items until the queue is closed; runs in each worker thread."""
        while (item := self._queue.take()) is not None:
            started = self.last_progress = time.monotonic()
            self._calls[threading.get_ident()] = CallHealth(item.function, started)
            event, due_at = item.event, item.due_at
            with tracing.span(f"deliver to {item.function}", "producer", parent=event.trace) as span:
                try:
                    answer = self._deliver(item.function, event)
                except Exception as error:
                    log.exception("delivery to %s failed", item.function)
                    answer = Answer(500, f"{type(error).__name__}: {error}")
                describe_delivery(span, item.function, event, answer)
                self._calls.pop(threading.get_ident(), None)
                self.last_progress = time.monotonic()
                seconds = self.last_progress - started
                metrics.FORWARDED.labels(item.function, answer.outcome).inc()
                self._count(answer, started - due_at)
                if answer.reply is not None:
                    self.submit(answer.reply, first=True)
            # Last, so that the queue is never idle before the next step is queued.
            try:
                self._call_hooks(item, event, answer, seconds)
            finally:
                self._queue.finish(item, delivery_result(answer))

    def _count(self, answer: Answer, latency: float) -> None:
        with self._lock:
            self._stats.delivered += 1
            self._stats.by_status[answer.status] += 1
            self._stats.dead_letters += is_rejection(answer)
            self._latencies.append(latency)

    def _call_hooks(self, item: QueueItem, event: Event, answer: Answer, seconds: float) -> None:
        try:
            if self._on_delivery is not None:
                self._on_delivery(item.function, event, answer, seconds)
            if is_rejection(answer):
                log.error(
                    "%s rejected %s %s (%s, id %s) with %d; it is not delivered again: %s",
                    item.function,
                    event.kind or event.type,
                    event.key,
                    event.type,
                    event.id,
                    answer.status,
                    answer.message,
                )
                if self._on_dead_letter is not None:
                    self._on_dead_letter(item.function, event, answer)
            elif answer.status in _REFUSED and not item.failures:
                log.warning(
                    "%s refuses this sender with %d; %s %s is delivered again: %s",
                    item.function,
                    answer.status,
                    event.kind or event.type,
                    event.key,
                    answer.message,
                )
        except Exception:
            log.exception("a hook of the dispatcher failed")


def _traced(event: Event) -> Event:
    """Returns the event as part of its own trace, of the trace of the delivery that it answers, or of a new trace."""
    if event.trace:
        return event
    name = f"{event.change} {event.kind}" if event.change else event.type
    with tracing.span(name, "producer", parent=tracing.current()) as span:
        describe_event(span, event)
        return replace(event, trace=here) if (here := tracing.current()) else event
