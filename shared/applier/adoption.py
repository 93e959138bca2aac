"""Adopts objects from the program that installed them before.

Server-side apply removes a field only when no manager owns it. The former installer owns all fields that it wrote. So
its entries in `metadata.managedFields` are merged into ours; the next apply then removes the fields that are not
desired. An entry belongs to a former installer if it owns the mark of the installation's objects, because the manager's
name differs between installers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..kube import Client, Conflict, Object, Resource, dig, key_of
from .owner import Owner

_ATTEMPTS = 4


def adopted_fields(obj: Mapping[str, Any], owner: Owner) -> list[Object] | None:
    """Returns the `managedFields` with the entries of former installers merged into ours; None if there are none.

    Entries for another apiVersion stay as they are, because field names may differ between versions.

    Args:
        obj: The live object; None is returned if we have not applied it yet.
        owner: The owner of the object, with the mark of the installation's objects.
    """
    entries: list[Object] = dig(obj, "metadata.managedFields", [])
    ours = next((entry for entry in entries if owner.has_applied(entry)), None)
    if ours is None:
        return None
    others = [
        entry for entry in entries if _is_of_installer(entry, owner) and entry["apiVersion"] == ours["apiVersion"]
    ]
    if not others:
        return None
    fields = ours.get("fieldsV1", {})
    for other in others:
        fields = union(fields, other["fieldsV1"])
    return [{**entry, "fieldsV1": fields} if entry is ours else entry for entry in entries if entry not in others]


def adopt(client: Client, resource: Resource, live: Object, owner: Owner) -> bool:
    """Adopts the fields of former installers. Returns whether there were any, so that the object must be applied again.

    Raises:
        ApiError: The API server failed or rejected the patch; a conflict only after several attempts.
    """
    for attempt in range(_ATTEMPTS):
        entries = adopted_fields(live, owner)
        if entries is None:
            return attempt > 0
        metadata = {"resourceVersion": live["metadata"]["resourceVersion"], "managedFields": entries}
        try:
            client.patch(resource, key_of(live), {"metadata": metadata}, manager=owner.manager)
            return True
        except Conflict as error:  # another client has written the object
            conflict = error
            live = client.get(resource, key_of(live))
    raise conflict


def _is_of_installer(entry: Mapping[str, Any], owner: Owner) -> bool:
    """Returns whether an entry of `managedFields` belongs to a former installer: another manager that owns the mark."""
    fields = dig(entry, ("fieldsV1", "f:metadata", f"f:{owner.mark.place}"), {})
    owns_mark = all(f"f:{name}" in fields for name in owner.mark.values)
    return owns_mark and entry.get("manager") != owner.manager and not entry.get("subresource")


def union(fields: Mapping[str, Any], others: Mapping[str, Any]) -> Object:
    """Returns the union of two field sets in the form of `fieldsV1`: nested mappings."""
    return {**fields, **{name: union(fields.get(name, {}), nested) for name, nested in others.items()}}
