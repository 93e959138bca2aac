"""The inventory of a provider, the label of its objects, and whether another provider needs one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from shared.api import provider as provider_api
from shared.api.names import OWNED, OWNED_LABEL
from shared.api.provider import KINDS, PROVIDER_LABEL
from shared.applier import inventory
from shared.applier.inventory import KEPT, NOT_SYNCED, InventoryEntry
from shared.applier.owner import Mark, Owner
from shared.kube import Client, dig, key_of
from shared.kube.crds import list_defined
from shared.manifests import Identity


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


def owner(provider: Mapping[str, Any]) -> Owner:
    """Returns the provider as the owner that the applier compares objects with."""
    mark = Mark({PROVIDER_LABEL: provider_api.label_of(provider)})
    return Owner(provider["kind"], {OWNED_LABEL: OWNED}, mark, claim=needed_by)


def needed_by(client: Client, label: str, who: Identity) -> str:
    """Returns kind and key of the provider with this label if the object is in its inventory, else an empty string.

    Args:
        client: The management cluster.
        label: Value of the label `cluster.x-k8s.io/provider`.
        who: The object.

    Raises:
        ApiError: Providers cannot be listed.
    """
    for kind in KINDS:
        if not kind.is_core and not label.startswith(f"{kind.prefix}-"):
            continue
        for provider in list_defined(client, kind.resource):
            if provider_api.label_of(provider) == label and _needs(provider, who):
                return f"{kind.kind} {key_of(provider)}"
    return ""


def _needs(provider: Mapping[str, Any], who: Identity) -> bool:
    """Returns whether the provider needs the object, because its inventory contains it.

    A provider without an inventory was installed by another program, and needs every object with its label.
    """
    entries = inventory.load(dig(provider, "status.resources"))
    return not entries or any(entry.identity == who and entry.status != KEPT for entry in entries)
