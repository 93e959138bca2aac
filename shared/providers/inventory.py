"""The inventory of a provider: the objects it has installed in the cluster, as recorded in `status.resources`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from shared.applier import inventory
from shared.applier.inventory import NOT_SYNCED, InventoryEntry
from shared.kube import dig


def inventory_of(provider: Mapping[str, Any] | None) -> list[InventoryEntry]:
    """Returns the provider's inventory.

    An entry whose write was begun but not confirmed has no uid, because that write may have recreated the object.
    """
    entries = inventory.load(dig(provider, "status.resources"))
    return [replace(entry, uid="") if entry.status == NOT_SYNCED else entry for entry in entries]


def with_unsynced(entries: Iterable[InventoryEntry], written: Iterable[InventoryEntry]) -> list[InventoryEntry]:
    """Returns the inventory with the objects `written` by a concurrent sync marked to be applied again."""
    unsynced = [replace(entry, uid="", hash="", status=NOT_SYNCED) for entry in written]
    return list({entry.identity: entry for entry in (*entries, *unsynced)}.values())
