"""When a function decides on a primary object without reading it: on the event's object, or on its own last write.

An object in an event is assumed to be current if it is new, or if another program wrote it last. The primary object
that a function creates for a new object is assumed not to exist. Both assumptions may be wrong, since events may be
late, or sent again when their source restarts: then the API server rejects the first write.

An object in an event that this project wrote last is read: another write often follows before the event of the first
arrives, and a conflict costs more than a read. The object is assumed to be as this process wrote it where the event is
the next step after that write, and where hardly anyone else writes it and the event does not contain it.
"""

from __future__ import annotations

from typing import NamedTuple

from ..clients import Clients
from ..effects import Create, Patch
from ..event import OWN, Event
from ..kube import Key, Object, Resource, dig, is_ours
from ..triggers import Triggers
from . import last_written
from .decision import Decision


class Assumed(NamedTuple):
    """A primary object that is decided on without a read.

    `primary` is None if it is assumed not to exist. It is remembered if this process wrote it and the event does not
    contain it: then no other event follows if it is outdated.
    """

    primary: Object | None
    remembered: bool = False

    def tolerates(self, decision: Decision) -> bool:
        """Returns whether the decision does no harm if the object is outdated."""
        primary = self.primary
        if primary is not None and not self.remembered and decision.writes_nothing(primary):
            return True  # another event follows
        return _is_guarded(decision, primary)


def primary_in(event: Event, resource: Resource, key: Key) -> Object | None:
    """Returns the primary object if the event contains it in the version that the function reads; otherwise None."""
    obj = event.object
    is_primary = event.change in ("add", "update") and obj is not None and event.key == key
    version = event.kind == resource.kind and resource.is_read_in(event.api_version)
    return obj if is_primary and version and dig(obj, "metadata.resourceVersion") else None


def assume(
    clients: Clients,
    triggers: Triggers,
    event: Event,
    resource: Resource,
    key: Key,
    *,
    trusts_events: bool,
    is_sole_writer: bool,
) -> Assumed | None:
    """Returns the primary object to decide on without a read; None if it must be read."""
    if not event.is_skippable:
        return None
    from_event = primary_in(event, resource, key)
    if event.type.startswith(OWN) or (is_sole_writer and from_event is None):
        remembered = last_written.find if is_sole_writer else last_written.take
        written = remembered(clients, resource, key)
        return Assumed(written, remembered=True) if written is not None else None
    if not trusts_events:
        return None
    if event.change == "update" and not _is_written_by_another(from_event or {}):
        return None
    if from_event is not None:
        return Assumed(from_event)
    watch = triggers.watch(event)
    is_new = event.change == "add" and event.object is not None and not event.object.get("status")
    return Assumed(None) if is_new and watch is not None and watch.creates_primary else None


def _is_written_by_another(obj: Object) -> bool:
    """Returns whether another program wrote the object last, by its managed fields; False if they do not show it."""
    ours: dict[str, bool] = {}
    for entry in dig(obj, "metadata.managedFields", []):
        time = entry.get("time") or ""
        ours[time] = ours.get(time, False) or is_ours(entry.get("manager"))
    return bool(ours) and not ours[max(ours)]


def _is_guarded(decision: Decision, primary: Object | None) -> bool:
    """Returns whether the first write of the decision fails, or changes nothing, if `primary` is outdated."""
    if primary is None:
        return bool(decision.effects) and isinstance(decision.effects[0], Create)
    if not decision.effects:
        return decision.changes_status(primary)
    first = decision.effects[0]
    return isinstance(first, Patch) and dig(first.obj, "metadata.uid") == dig(primary, "metadata.uid")
