"""Adopts objects from the program that installed them before.

Server-side apply removes a field only when no manager owns it. The former installer owns all fields that it wrote. So
its entries in `metadata.managedFields` are merged into ours; the next apply then removes the fields that are not
desired. An entry is a former installer's if it owns the label that marks all objects of the installation: the name of
the manager differs between installers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..kube import MANAGER, Client, Conflict, Object, Resource, dig, key_of

_ATTEMPTS = 4


def adopted_fields(obj: Mapping[str, Any], label: str) -> list[Object] | None:
    """Returns the `managedFields` with the entries of former installers merged into ours; None if there are none.

    Entries for another apiVersion stay as they are, since field names may differ between versions.

    Args:
        obj: The live object; None is returned if we have not applied it yet.
        label: The name of the label that marks the objects of the installation.
    """
    entries: list[Object] = dig(obj, "metadata.managedFields", [])
    ours = next((entry for entry in entries if is_applied_by_us(entry)), None)
    if ours is None:
        return None
    others = [
        entry for entry in entries if _is_of_installer(entry, label) and entry["apiVersion"] == ours["apiVersion"]
    ]
    if not others:
        return None
    fields = ours.get("fieldsV1", {})
    for other in others:
        fields = union(fields, other["fieldsV1"])
    return [{**entry, "fieldsV1": fields} if entry is ours else entry for entry in entries if entry not in others]


def adopt(client: Client, resource: Resource, live: Object, label: str) -> bool:
    """Adopts the fields of former installers. Returns whether there were any: then the object must be applied again.

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
            conflict = error
            live = client.get(resource, key_of(live))
    raise conflict


def is_applied_by_us(entry: Mapping[str, Any]) -> bool:
    """Returns whether an entry of `managedFields` belongs to our server-side apply."""
    return entry.get("manager") == MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource")


def _is_of_installer(entry: Mapping[str, Any], label: str) -> bool:
    """Returns whether an entry of `managedFields` is a former installer's: another manager that owns the label."""
    owns_label = dig(entry, ("fieldsV1", "f:metadata", "f:labels", f"f:{label}")) is not None
    return owns_label and entry.get("manager") != MANAGER and not entry.get("subresource")


def union(fields: Mapping[str, Any], others: Mapping[str, Any]) -> Object:
    """Returns the union of two field sets in the form of `fieldsV1`: nested mappings."""
    return {**fields, **{name: union(fields.get(name, {}), nested) for name, nested in others.items()}}
