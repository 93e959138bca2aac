"""Skips reconciled objects when all kinds are listed, after a start and at each resync.

The lists bring every object, so nothing needs to be read. An event is skipped if `Triggers.is_reconciled_as_listed` of
the function holds for the primary object and the object of the event. An event about another object is held until the
primary kind is listed. An event that depends on references to its object is held until all kinds are listed. In doubt
an event is delivered. Whole objects are kept only until the kinds are listed.

An event by reference shows nothing of its object, which may have changed while nothing watched it. If the primary
object by itself is reconciled, such an event is delivered after a start as a drift check, at its own time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from shared.event import Event
from shared.kube import Key, Object, Resource, key_of
from shared.triggers import PrimaryRef, Triggers

from .rounds import OnChange
from .shard import ALL, Shard
from .specs import InformerSpec

log = logging.getLogger("capi-functions.events")

PATIENCE = 5.0
"""Seconds without a listed object or kind after which the round stops waiting for kinds that are not listed."""

OnReconciled = Callable[[Event, str, PrimaryRef], object]
"""Called with an event, a function that need not reconcile, and the primary object."""


@dataclass(frozen=True)
class View:
    """The facts that a round needs beyond its own lists.

    Attributes:
        triggers: The functions by name.
        knows: Returns whether an object exists, None if that is not known; see `Watcher.knows`.
        is_referenced: Returns whether the event's object is referenced; see `Watcher.is_referenced`.
        shard: The primary objects that this forwarder is for.
    """

    triggers: Mapping[str, Triggers]
    knows: Callable[[Resource, Key], bool | None]
    is_referenced: Callable[[str, Event], bool]
    shard: Shard = ALL

    def primary(self, function: str, event: Event) -> PrimaryRef | None:
        """Returns the primary object of the event; None if it is not for the function or this shard."""
        ref = self.triggers[function].find_ref(event)
        return ref if ref is not None and self.shard.owns(ref.key.namespace) else None

    def wants(self, function: str, event: Event) -> bool:
        """Returns whether the function may need this change."""
        ref = self.primary(function, event)
        return ref is not None and not self.lacks_primary(function, event, ref)

    def wants_received(self, function: str, event: Event) -> bool:
        """Returns whether the function may need an event that another program has sent, whichever shard it is for."""
        ref = self.triggers[function].find_ref(event)
        if ref is None or event.change is None:
            return ref is not None
        return self.is_referenced(function, event) and not self.lacks_primary(function, event, ref)

    def lacks_primary(self, function: str, event: Event, ref: PrimaryRef) -> bool:
        """Returns whether the event is useless, because its primary object does not exist.

        The object may exist by now. Then its own `add` event follows, and makes the function read everything.
        """
        watch = self.triggers[function].watch(event)
        if watch is None or not watch.needs_primary or ref.resource is None:
            return False
        return self.knows(ref.resource, ref.key) is False


class ReconciledRound:
    """A round that forwards the events of objects that are not reconciled.

    Args:
        view: See `View`.
        forward: Called with an event and the functions that it is delivered to.
        on_reconciled: See `OnReconciled`; called once for each function and primary object, and for each event by
            reference.
        specs: The lists to wait for.
        patience: See `PATIENCE`.
    """

    def __init__(
        self,
        view: View,
        forward: OnChange,
        on_reconciled: OnReconciled,
        specs: Iterable[InformerSpec],
        *,
        patience: float = PATIENCE,
    ) -> None:
        self._view = view
        self._forward = forward
        self._on_reconciled = on_reconciled
        self._patience = patience
        self._lock = threading.RLock()
        self._unlisted = set(specs)
        self._joined = joined_kinds(view.triggers.values())
        self._objects: dict[Resource, dict[Key, Object]] = {
            spec.resource: {} for spec in self._unlisted if spec.complete and spec.resource in self._joined
        }
        """The listed objects of each kind that events about other objects are mapped to."""
        self._held: list[tuple[Event, str, PrimaryRef]] = []
        self._reported: set[tuple[str, PrimaryRef, str]] = set()
        self._progress = time.monotonic()
        self._over = threading.Event()

    def see(self, spec: InformerSpec, obj: Object) -> None:
        """Keeps the object if events about other objects may be mapped to it."""
        self._progress = time.monotonic()
        if spec.complete and not self._over.is_set() and (kept := self._objects.get(spec.resource)) is not None:
            kept[key_of(obj)] = obj

    def report(self, event: Event, functions: Sequence[str]) -> None:
        """Forwards the event to the functions that must reconcile; holds it for functions that it cannot judge yet."""
        now = []
        for name in functions:
            ref = self._view.primary(name, event)
            if ref is not None and not self._hold(event, name, ref) and self._has_work(event, name, ref):
                now.append(name)
        if now:
            self._forward(event, now)

    def end(self, spec: InformerSpec) -> None:
        """Decides about the held events that waited for this list."""
        self._progress = time.monotonic()
        with self._lock:
            self._unlisted.discard(spec)
            due, self._held = self._held, []
            for event, name, ref in due:
                if not self._hold(event, name, ref) and self._has_work(event, name, ref):
                    self._forward(event, [name])
            if not self._unlisted:
                self._finish()

    def wait(self, stop: threading.Event) -> None:
        """Returns when all kinds are listed, or when a kind makes no progress."""
        while not self._over.wait(0.2) and not stop.is_set():
            if time.monotonic() - self._progress > self._patience:
                self._give_up()

    def _give_up(self) -> None:
        """Forwards the held events without having decided about them."""
        with self._lock:
            if not self._over.is_set():
                log.info("not listed yet: %s", ", ".join(sorted(map(str, self._unlisted))))
                for event, name, _ in self._held:
                    self._forward(event, [name])
                self._finish()

    def _finish(self) -> None:
        """Releases all objects, and then the informers, so that no held event overtakes a later change."""
        self._held, self._objects = [], {}
        self._over.set()

    def _hold(self, event: Event, name: str, ref: PrimaryRef) -> bool:
        """Holds the event if it must wait for a list; returns whether it does."""
        with self._lock:
            if self._over.is_set():
                return False
            watch = self._view.triggers[name].watch(event)
            if watch is not None and watch.referenced_by:
                waits = bool(self._unlisted)
            else:
                waits = not is_about(event, ref) and any(
                    spec.resource == ref.resource and spec.complete for spec in self._unlisted
                )
            if waits:
                self._held.append((event, name, ref))
            return waits

    def _has_work(self, event: Event, name: str, ref: PrimaryRef) -> bool:
        """Returns whether the function may have something to do."""
        if not self._view.is_referenced(name, event) or self._view.lacks_primary(name, event, ref):
            return False
        primary = event.object if is_about(event, ref) else None
        if primary is None and ref.resource is not None:
            primary = self._objects.get(ref.resource, {}).get(ref.key)
        declared = self._view.triggers[name]
        reconciled = primary is not None and declared.is_reconciled_as_listed(primary, event, datetime.now(UTC))
        if reconciled:
            self._look(event, name, ref)
        return not reconciled

    def _look(self, event: Event, name: str, ref: PrimaryRef) -> None:
        """Reports the primary object as reconciled once, and after a start also each event by reference."""
        by_reference = event.object is None and not is_about(event, ref)
        if by_reference and event.resync:
            return  # a change would have been watched
        look = (name, ref, event.id if by_reference else "")
        if look not in self._reported:
            self._reported.add(look)
            self._on_reconciled(event, name, ref)


def is_about(event: Event, ref: PrimaryRef) -> bool:
    """Returns whether the event is about the primary object itself."""
    resource = ref.resource
    return resource is not None and (event.group, event.kind, event.key) == (resource.group, resource.kind, ref.key)


def joined_kinds(triggers: Iterable[Triggers]) -> set[Resource]:
    """Returns the primary kinds of functions with `is_reconciled` to which events about other objects are mapped."""
    return {
        primary
        for declared in triggers
        if declared.is_reconciled is not None
        for primary in declared.primaries
        if any(watch.resource != primary for watch in declared.watches)
    }
