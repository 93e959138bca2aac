"""The function `sweep`: emits events for objects that are not reconciled, because event sources may lose events.

A timer starts it. With `{"everything": true}` as the data of its event, every primary object is sent as a resync; with
`{"kind": "..."}` every object of that kind, so that ClusterStacks look for new releases.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from shared import profiles
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import Key, NotServed, Object, deleting, key_of
from shared.kube.crds import list_defined
from shared.kube.resources import split_api_version
from shared.runtime import Answer, Task
from shared.runtime.sink import emit
from shared.runtime.throttle import Throttle
from shared.settings import SETTINGS
from shared.triggers import PrimaryRef, Triggers

from .triggers import KINDS, SWEPT, TRIGGERS, swept_kinds

log = logging.getLogger("capi-functions")

SOURCE = "/sweep"
MIN_INTERVAL = 30.0
"""Seconds between two sweeps that send reconciled objects as well, because any pod can request one."""

_THROTTLE = Throttle("the sweep")

_Listed = Mapping[tuple[str, str, Key], Object]
"""Objects by group, kind and key."""


def run(clients: Clients, event: Event) -> Answer:
    """Answers a ping event: lists the objects and sends those that need it to K_SINK."""
    everything, kind = event.data.get("everything") is True, event.data.get("kind")
    if kind is not None and kind not in [resource.kind for resource in KINDS]:
        return Answer(400, f"event {event.id}: the sweep does not cover the kind in data.kind")
    try:
        swept = _swept()
    except ValueError as error:
        return Answer(503, f"setting CAPI_FUNCTIONS_PROFILES: {error}", retry_after=60.0)
    interval = MIN_INTERVAL if everything or kind else 0.0

    return _THROTTLE.run(
        clients, (everything, kind), interval, lambda: _sweep(clients, swept, kind, everything=everything)
    )


def _swept() -> tuple[Triggers, ...]:
    """Returns the functions of the installation's profiles. Raises ValueError for a profile that does not exist."""
    selected = profiles.parse(SETTINGS.get("CAPI_FUNCTIONS_PROFILES", ""))
    return tuple(one for one in SWEPT if profiles.belongs(one.profiles, selected))


def _sweep(clients: Clients, swept: Sequence[Triggers], kind: str | None, *, everything: bool) -> Answer:
    objects = list(_objects(clients, swept, kind))
    chosen = objects
    if not kind:
        now = datetime.now(UTC)
        chosen = list(not_covered(objects, swept) if everything else not_reconciled(objects, now, swept))
    events = (change_event(obj, "update", source=SOURCE, reference=True, resync=everything) for obj in chosen)
    return emit(TRIGGERS, events, f"of {len(objects)} objects sent again")


def not_reconciled(objects: Iterable[Object], now: datetime, swept: Sequence[Triggers] = SWEPT) -> Iterator[Object]:
    """Yields the objects that a function of `swept` has to reconcile, judged by the listed objects."""
    objects = list(objects)
    listed = _listed(objects)
    for obj in objects:
        event = change_event(obj, "add", source=SOURCE)
        if _is_deleting(obj, event, swept) or any(_has_work(one, event, listed, now) for one in swept):
            yield obj


def not_covered(objects: Iterable[Object], swept: Sequence[Triggers] = SWEPT) -> Iterator[Object]:
    """Yields each object that is not already covered by its listed primary object.

    A resync of the primary object makes a function read all its inputs. For example, the functions of addons need no
    event for a Cluster whose ClusterAddon is listed.
    """
    objects = list(objects)
    listed = _listed(objects)
    for obj in objects:
        event = change_event(obj, "add", source=SOURCE)
        if _is_deleting(obj, event, swept) or any(_is_needed(one, event, obj, listed) for one in swept):
            yield obj


def _is_deleting(obj: Object, event: Event, swept: Sequence[Triggers]) -> bool:
    """Returns whether the object is being deleted, and its event is for a function."""
    return deleting(obj) and any(one.find_ref(event) is not None for one in swept)


def _is_needed(declared: Triggers, event: Event, obj: Object, listed: _Listed) -> bool:
    """Returns whether only this object starts the function for that primary object."""
    watch, ref = declared.watch(event), declared.find_ref(event)
    if watch is None or ref is None:
        return False
    primary = _find(ref, listed)
    return not watch.needs_primary if primary is None else primary is obj


def _listed(objects: Iterable[Object]) -> _Listed:
    return {(split_api_version(obj["apiVersion"])[0], obj["kind"], key_of(obj)): obj for obj in objects}


def _find(ref: PrimaryRef, listed: _Listed) -> Object | None:
    return listed.get((ref.resource.group, ref.resource.kind, ref.key)) if ref.resource is not None else None


def _has_work(declared: Triggers, event: Event, listed: _Listed, now: datetime) -> bool:
    """Returns whether the function must reconcile for the event's object, which is one of the `listed` objects."""
    watch, ref = declared.watch(event), declared.find_ref(event)
    if watch is None or watch.referenced_by or ref is None or ref.resource is None or declared.is_reconciled is None:
        return False
    primary = _find(ref, listed)
    return watch.creates_primary if primary is None else not declared.is_reconciled_as_listed(primary, event, now)


def _objects(clients: Clients, swept: Sequence[Triggers], kind: str | None) -> Iterator[Object]:
    for resource in swept_kinds(swept):
        if kind not in (None, resource.kind):
            continue
        try:
            yield from list_defined(clients.management, resource)
        except NotServed as error:
            log.warning("the sweep skips %s", error)


handle = Task(TRIGGERS, run).handle
