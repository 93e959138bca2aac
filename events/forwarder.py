"""The forwarder: watches kinds, dispatches each change to the functions that it is for, and receives events.

It takes the declarations of the functions; `python -m infra.forwarder` runs a forwarder for the catalog.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from shared.dead_letters import FUNCTION as DEAD_LETTERS
from shared.dead_letters import without_content
from shared.event import DeliveryFailure, Event
from shared.kube import Client, Key
from shared.runtime import Answer
from shared.triggers import PrimaryRef, Triggers

from . import health
from .delivery import Deliver
from .dispatcher import Dispatcher, OnDelivery
from .drift import DriftLooks
from .health import Activity
from .informer import SILENCE
from .ingress import Ingress
from .memory import without_objects
from .reconciled import ReconciledRound, View
from .rounds import PlainRound, Round
from .shard import ALL, Shard
from .specs import InformerSpec
from .timer import Timer
from .watcher import Watcher

log = logging.getLogger("capi-functions.events")

_REMEMBERED = 600.0
"""Seconds for which a standby keeps changes that no list shows; longer than a takeover needs.

The former forwarder gives up the Lease after at most `events.health.STUCK_AFTER`.
"""
_MAX_UNLISTED = 10_000
_MAX_LETTERS = 1_000
"""Dead letters that wait to be delivered."""
_LETTERS_PER_SECOND = 10.0
_LAST_LETTERS = 2.0
"""The maximum number of seconds for dead letters before the end."""


@dataclass(frozen=True)
class AllEvents(Triggers):
    """The triggers of a sink: all events. The key includes the type of the event, because the sink filters by it."""

    def primary_ref(self, event: Event) -> PrimaryRef:
        """Returns a key for the object and the type of the event."""
        about = event.subject if not event.kind else f"{event.group}/{event.kind}/{event.namespace}"
        return PrimaryRef(None, Key(f"{event.change or event.type}/{about}", event.name))


class LetterBox:
    """Delivers dead letters to the function that keeps them, from a queue of their own that delays no other event.

    Waiting letters of one function about one object are merged. If the queue is full, a new letter is lost.
    """

    def __init__(self, deliver: Deliver) -> None:
        receivers = {DEAD_LETTERS: _AllLetters(DEAD_LETTERS)}
        self._dispatcher = Dispatcher(receivers, deliver, workers=1, rate=_LETTERS_PER_SECOND)

    def add(self, function: str, event: Event, answer: Answer) -> None:
        """Takes an event that a function has rejected: its attributes, not the content."""
        if self.waiting >= _MAX_LETTERS:
            log.warning("too many dead letters: the letter of event %s is lost", event.id)
            return
        failure = DeliveryFailure(function, answer.status, answer.message)
        self._dispatcher.submit(without_content(replace(event, failure=failure)))

    @property
    def waiting(self) -> int:
        """The number of letters that are not delivered yet."""
        return self._dispatcher.size

    def stop(self, drain: float) -> None:
        """Delivers waiting letters for at most `drain` seconds, and then abandons calls in flight."""
        if drain:
            self._dispatcher.drain(drain, ignore_waits_above=0.0)
        self._dispatcher.stop(timeout=0.0)


@dataclass(frozen=True)
class _AllLetters(AllEvents):
    """The triggers of the function that keeps dead letters. The key includes who rejected the event."""

    def primary_ref(self, event: Event) -> PrimaryRef:
        """Returns a key for the object, the type of the event, and who rejected it."""
        namespace, name = super().primary_ref(event).key
        rejecting = event.failure.destination if event.failure else ""
        return PrimaryRef(None, Key(f"{rejecting}/{namespace}", name))


class Forwarder:
    """Delivers the changes that `triggers` declare, and the events that its ingress receives.

    Args:
        client: The cluster to watch.
        triggers: The functions by name. If `dead_letters` is among them, it gets the events that the others reject.
        deliver: Delivers an event to a function.
        to_sink: Delivers every event once, to the name "sink", for all its functions together.
        workers: Deliveries at a time.
        rate: Deliveries a second.
        resync: Seconds between resyncs of all objects.
        timer: Seconds between ping events for the functions that a timer starts; not with `to_sink`.
        namespace: Watches only these namespaces, separated by commas; empty: all.
        shard: Delivers the changes for the primary objects of this shard only. Events that its ingress receives are
            always delivered.
        standby: Whether to list and watch only, until `activate` is called: another forwarder delivers.
        host: Address of the ingress.
        port: Port of the ingress; 0 for a free one. Without `port` and `listener` there is no ingress.
        listener: Listening socket of the ingress.
        token: The file with the token that senders to the ingress need, None if they need none.
        on_delivery: See `OnDelivery`.
        silence: See `events.informer.SILENCE`.
    """

    def __init__(
        self,
        client: Client,
        triggers: Mapping[str, Triggers],
        deliver: Deliver,
        *,
        to_sink: bool = False,
        workers: int = 8,
        rate: float = 500.0,
        resync: float = 600.0,
        timer: float = 3600.0,
        namespace: str = "",
        shard: Shard = ALL,
        standby: bool = False,
        host: str = "127.0.0.1",
        port: int | None = None,
        listener: socket.socket | None = None,
        token: Path | None = None,
        on_delivery: OnDelivery | None = None,
        silence: float = SILENCE,
    ) -> None:
        self._to_sink = to_sink
        self._lock = threading.Lock()
        self._active, self._started = not standby, False
        self._unlisted: deque[tuple[float, Event, Collection[str]]] = deque(maxlen=_MAX_UNLISTED)
        """The changes during the standby that no list shows later, with their times: deletions, and changes of objects
        whose events are references."""
        self._triggers = triggers
        routes = {"sink": AllEvents("sink")} if to_sink else triggers
        self._letters = LetterBox(deliver) if DEAD_LETTERS in routes else None
        self.dispatcher = Dispatcher(
            routes,
            deliver,
            workers=workers,
            rate=rate,
            on_delivery=on_delivery,
            on_dead_letter=self._letters.add if self._letters else None,
            reduce=self._for_sink if to_sink else None,
        )
        self._drift = DriftLooks(triggers, self._submit, every=resync)
        self.watcher = Watcher(
            client,
            triggers,
            self._changed,
            resync=resync,
            namespace=namespace,
            begin_round=self._begin_round,
            silence=silence,
        )
        self._view = View(triggers, self.watcher.knows, self.watcher.is_referenced, shard)
        # Only one shard sends the ping events, the one for objects without a namespace.
        self._timer = None if to_sink or not shard.owns("") else Timer(self._ping, every=timer)
        self.ingress: Ingress | None = None
        if port is not None or listener is not None:
            self.ingress = Ingress(
                self._receive,
                host=host,
                port=port or 0,
                listener=listener,
                token=token,
                is_ready=lambda: self._active,
            )

    def start(self) -> None:
        """Starts ingress, watches, looks for drift and timer."""
        if self.ingress is not None:
            self.ingress.start()
        with self._lock:
            self._started = True
            self.watcher.start()
        self._drift.start()
        if self._timer is not None:
            self._timer.start()

    def activate(self) -> None:
        """Ends the standby: continues as after a start, and delivers the latest changes that no list shows.

        The former forwarder may not have delivered them. A repetition is harmless, because events are hints.
        """
        with self._lock:
            self._active = True
            unlisted = [*self._unlisted]
            self._unlisted.clear()
        self.repeat()
        since = time.monotonic() - _REMEMBERED
        for at, event, functions in unlisted:
            if at >= since:
                self._changed(event, functions)

    def repeat(self) -> None:
        """Lists everything again, and delivers objects that are not reconciled; the receiver may have lost events."""
        with self._lock:
            if self._started:
                self.watcher.restart()

    def activity(self) -> Activity:
        """Returns the present activity of the forwarder, for `events.health`."""
        calls, oldest, progress = self.dispatcher.calls, self.dispatcher.oldest(), self.dispatcher.last_progress
        return Activity(self.watcher.kinds(), calls, oldest, progress, self.dispatcher.has_workers)

    def problems(self) -> list[str]:
        """Returns the problems that keep the forwarder from its work."""
        return [problem.message for problem in health.problems(self.activity(), time.monotonic())]

    def wait_synced(self, timeout: float) -> bool:
        """Returns whether every served kind was listed, and its objects queued, within `timeout` seconds."""
        return self.watcher.wait_synced(timeout)

    def drain(self, timeout: float, ignore_waits_above: float = 1.0, *, quiet: float = 0.0) -> bool:
        """See `Dispatcher.drain`; `quiet` allows for events about the changes of the last calls."""
        return self.dispatcher.drain(timeout, ignore_waits_above, quiet=quiet)

    def stop(self, drain: float = 0.0) -> None:
        """Stops watching and receiving, and delivers the queue for at most `drain` seconds.

        Leaves deliveries that fail or wait to the next forwarder if its lists show their objects, because that
        forwarder may be waiting for the Lease.
        """
        self.watcher.stop()
        self._drift.stop()
        if self._timer is not None:
            self._timer.stop()
        if self.ingress is not None:
            self.ingress.stop()
        if drain and not self.dispatcher.drain(drain, ignore_waits_above=drain, dropped=_is_listed):
            log.warning("stopped with undelivered events: %s", self.dispatcher.pending())
        self.dispatcher.stop()
        if self._letters is not None:
            self._letters.stop(min(drain, _LAST_LETTERS))

    def _begin_round(self, specs: Collection[InformerSpec]) -> Round:
        if not self._active:
            return PlainRound(lambda _event, _functions: None, lambda _function, _event: False)
        return ReconciledRound(self._view, self._submit, self._drift.add, specs)

    def _changed(self, event: Event, functions: Collection[str]) -> None:
        if not self._active and not _is_listed(event):
            with self._lock:
                if not self._active:
                    self._remember(event, functions)
        if not self._active:
            return
        if wanting := [name for name in functions if self._view.wants(name, event)]:
            self._submit(event, wanting)

    def _remember(self, event: Event, functions: Collection[str]) -> None:
        """Keeps a change without its object, because the number of changes is unbounded."""
        for names in [functions] if self._to_sink else [[name] for name in functions]:
            for light in without_objects(event, [self._triggers[name] for name in names]):
                self._unlisted.append((time.monotonic(), light, names))

    def _receive(self, event: Event) -> None:
        """Queues an event from the ingress, for the functions that may need it. Raises `QueueFull`.

        The sweep sends each object once, and does not know which functions have a use for it.
        """
        wanting = None
        if not self._to_sink and self.wait_synced(0):  # before that, missing objects may only be unlisted
            wanting = [name for name in self._triggers if self._view.wants_received(name, event)]
        self.dispatcher.receive(event, wanting)

    def _ping(self, event: Event) -> None:
        if self._active:
            self.dispatcher.submit(event)

    def _submit(self, event: Event, functions: Collection[str]) -> None:
        if not self._to_sink:
            self.dispatcher.submit(event, functions)
        elif any(self._triggers[name].find_ref(event) is not None for name in functions):
            self.dispatcher.submit(event)

    def _for_sink(self, _sink: str, event: Event) -> list[Event]:
        return without_objects(event, self._triggers.values())


def _is_listed(event: Event) -> bool:
    """Returns whether the lists of another forwarder show the change in the event."""
    return event.change in ("add", "update") and event.object is not None
