"""Primary objects that a function decides on without reading them, like kube-scheduler's assume cache.

An object in an event is assumed to be current if it is new, or if another program wrote it last. The primary object
that a function creates for a new object is assumed not to exist. An object that this project wrote last is read,
because another write often follows before the event of the first arrives, and a conflict costs more than a read. It is
assumed to be as this process wrote it in the event of the next step after that write, and where hardly anyone else
writes it and the event does not contain it. The API server's answer is remembered, because whoever may send events must
not be trusted with the content.

Each assumption may be wrong. So it serves only for a decision whose first write the API server rejects in that case.
"""

from __future__ import annotations

import json
import zlib
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ..clients import Clients
from ..effects import Create, Patch
from ..event import OWN, Event
from ..kube import Key, Object, Resource, dig, is_ours, key_of
from ..triggers import Triggers
from .decision import Decision

_MOST = 4 * 1024 * 1024
"""Bytes of remembered objects, compressed: a ClusterAddon with 15 objects takes 2 KiB instead of 50."""

_lock = Lock()
_written: WeakKeyDictionary[Clients, dict[tuple[Resource, Key], bytes]] = WeakKeyDictionary()


class Assumed(NamedTuple):
    """A primary object for a decision without a read.

    `primary` is None if it is assumed not to exist. It is `remembered` if this process wrote it and the event does not
    contain it, so that no other event follows if it is outdated.
    """

    primary: Object | None
    remembered: bool = False

    def tolerates(self, decision: Decision) -> bool:
        """Returns whether the decision does no harm if the object is outdated."""
        primary = self.primary
        if primary is None:
            return bool(decision.effects) and isinstance(decision.effects[0], Create)
        if not self.remembered and decision.writes_nothing(primary):
            return True  # another event follows
        if not decision.effects:
            return decision.changes_status(primary)
        first = decision.effects[0]
        return isinstance(first, Patch) and dig(first.obj, "metadata.uid") == dig(primary, "metadata.uid")


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
        written = last_written(clients, resource, key, again=is_sole_writer)
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


def remember(clients: Clients, resource: Resource, obj: Object) -> None:
    """Remembers an object, as the API server has answered a write; forgets the oldest beyond `_MOST`."""
    compressed = zlib.compress(json.dumps(obj).encode(), level=1)
    with _lock:
        written = _written.setdefault(clients, {})
        written.pop((resource, key_of(obj)), None)
        written[resource, key_of(obj)] = compressed
        while sum(map(len, written.values())) > _MOST:
            del written[next(iter(written))]


def last_written(clients: Clients, resource: Resource, key: Key, *, again: bool) -> Object | None:
    """Returns the object as this process wrote it last, once or `again` and again; None if it is not remembered."""
    with _lock:
        written = _written.get(clients, {})
        compressed = written.get((resource, key)) if again else written.pop((resource, key), None)
    found: Object | None = json.loads(zlib.decompress(compressed)) if compressed is not None else None
    return found


def forget(clients: Clients, resource: Resource) -> None:
    """Forgets the objects of a kind, because others write them, too: replicas of this process, each in its turn."""
    with _lock:
        written = _written.get(clients, {})
        for known in [one for one in written if one[0] == resource]:
            del written[known]


def _is_written_by_another(obj: Object) -> bool:
    """Returns whether another program wrote the object last, by its managed fields; False if they do not show it."""
    ours: dict[str, bool] = {}
    for entry in dig(obj, "metadata.managedFields", []):
        time = entry.get("time") or ""
        ours[time] = ours.get(time, False) or is_ours(entry.get("manager"))
    return bool(ours) and not ours[max(ours)]
