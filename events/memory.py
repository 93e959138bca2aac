"""Estimates the memory of queued events, and replaces events that take too much.

An event without its object leads to the same result for one more request, because the function reads the object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from shared.event import Event, change_event
from shared.kube import Object
from shared.triggers import PrimaryRef, Triggers

from .reconciled import is_about

LIMIT = 64 << 20
"""Bytes of all events in a queue."""
_BYTES_OF = {",": 100, "[": 80, "{": 130}
"""Bytes of memory for each such character in JSON, which stand for a value, a list and a dict."""


def weigh(data: Object) -> int:
    """Returns the estimated bytes of memory that the data of an event takes."""
    text = json.dumps(data, separators=(",", ":"))
    return len(text) + sum(text.count(character) * size for character, size in _BYTES_OF.items())


def without_objects(event: Event, receivers: Iterable[Triggers]) -> list[Event]:
    """Returns events without objects that lead each receiver to the same primary object as `event`.

    A receiver whose mapping needs the content of the object gets an event about its primary object. An event that is
    not about the primary object becomes a resync, because the function must not conclude from the primary object
    alone that there is nothing to do. Returns `event` itself if a receiver still needs the content, and a reference to
    its object if the event has no receiver.
    """
    if event.object is None:
        return [event]
    found: dict[tuple[str, ...], Event] = {}
    for declared in receivers:
        if (ref := declared.find_ref(event)) is None:
            continue
        light = _for_receiver(event, declared, ref)
        if light is None:
            return [event]
        place = (light.type, light.group, light.kind, *light.key)
        found[place] = replace(light, resync=light.resync or (place in found and found[place].resync))
    return [*found.values()] or [event.without_object()]


def _for_receiver(event: Event, declared: Triggers, ref: PrimaryRef) -> Event | None:
    if is_about(event, ref):
        candidates = [event.without_object()]
    else:
        candidates = [replace(event.without_object(), resync=True)]
        if ref.resource is not None:
            metadata = {"namespace": ref.key.namespace, "name": ref.key.name}
            primary = {"apiVersion": ref.resource.api_version, "kind": ref.resource.kind, "metadata": metadata}
            change = change_event(primary, "update", source=event.source, reference=True, resync=True)
            candidates.append(replace(change, trace=event.trace))
    return next((candidate for candidate in candidates if declared.find_ref(candidate) == ref), None)


class Ledger:
    """Adds up the memory of events; data that several events share counts once. Not safe to share between threads."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.total = 0
        """Bytes of all held data."""
        self._held: dict[int, list[int]] = {}
        """Uses and bytes of the held data, by its identity, which is unique while the data is held."""

    def hold(self, data: Object, size: int) -> None:
        """Adds data of `size` bytes, or a use of it."""
        entry = self._held.setdefault(id(data), [0, size])
        entry[0] += 1
        if entry[0] == 1:
            self.total += size

    def release(self, data: Object) -> None:
        """Removes one use of the data."""
        entry = self._held[id(data)]
        entry[0] -= 1
        if not entry[0]:
            del self._held[id(data)]
            self.total -= entry[1]
