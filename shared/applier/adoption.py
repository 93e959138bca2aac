"""Adopts objects from the program that installed them before.

Server-side apply removes a field only when its last manager gives it up. A former installer still holds every field
that it ever wrote, so its entries in `metadata.managedFields` are merged into ours; the next apply then removes the
fields that are not applied any more. A former installer is recognised by the label that it put on all its objects,
whatever its manager name was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..kube import MANAGER, Client, Conflict, Object, Resource, dig, key_of

_ATTEMPTS = 4


def adopted_fields(obj: Mapping[str, Any], label: str) -> list[Object] | None:
    """Returns the object's `managedFields` with the installers' entries merged into ours; None without installers.

    Entries in another apiVersion stay as they are, since field names may differ between versions.

    Args:
        obj: The live object, applied by us at least once.
        label: The name of the label that marks an installer's objects.
    """
    entries: list[Object] = dig(obj, "metadata.managedFields", [])
    ours = next((entry for entry in entries if is_applied_by_us(entry)), None)
    if ours is None:
        return None
    others = [entry for entry in entries if _installs(entry, label) and entry["apiVersion"] == ours["apiVersion"]]
    if not others:
        return None
    fields = ours.get("fieldsV1", {})
    for other in others:
        fields = _union(fields, other["fieldsV1"])
    return [{**entry, "fieldsV1": fields} if entry is ours else entry for entry in entries if entry not in others]


def adopt(client: Client, resource: Resource, live: Object, label: str) -> bool:
    """Adopts the fields of former installers; returns whether there were any, so that a further apply is needed.

    Raises:
        ApiError: The API server failed or rejected the patch; a conflict only after several attempts.
    """
    for attempt in range(_ATTEMPTS):
        entries = adopted_fields(live, label)
        if entries is None:
            return attempt > 0
        metadata = {"resourceVersion": live["metadata"]["resourceVersion"], "managedFields": entries}
        try:
            client.patch(resource, key_of(live), {"metadata": metadata}, manager=MANAGER)
            return True
        except Conflict as error:  # another client has written the object
            refusal = error
            live = client.get(resource, key_of(live))
    raise refusal


def is_applied_by_us(entry: Mapping[str, Any]) -> bool:
    """Returns whether an entry of `managedFields` holds what we applied."""
    return entry.get("manager") == MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource")


def _installs(entry: Mapping[str, Any], label: str) -> bool:
    """Returns whether the entry of `managedFields` is that of a former installer: it sets the label."""
    holds = dig(entry, ("fieldsV1", "f:metadata", "f:labels", f"f:{label}")) is not None
    return holds and entry.get("manager") != MANAGER and not entry.get("subresource")


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> Object:
    return {**one, **{name: _union(one.get(name, {}), below) for name, below in other.items()}}
