"""The inventory of a provider, in tables."""

from __future__ import annotations

from shared.applier.inventory import NOT_SYNCED, SYNCED, InventoryEntry
from shared.kube import Object
from shared.providers.ownership import inventory_of, with_unsynced


def entry(name: str, **more: str) -> InventoryEntry:
    return InventoryEntry("", "v1", "ConfigMap", "n", name, **more)


def provider(*entries: InventoryEntry) -> Object:
    return {"status": {"resources": [each.dump() for each in entries]}}


def test_entries_with_unconfirmed_writes_have_no_uid() -> None:
    synced, begun = entry("a", uid="1", hash="h", status=SYNCED), entry("b", uid="2", hash="h", status=NOT_SYNCED)
    kept = entry("c", uid="3", status="kept")
    assert inventory_of(provider(synced, begun, kept)) == [synced, entry("b", hash="h"), kept]
    assert inventory_of(None) == inventory_of({}) == []


def test_objects_of_a_concurrent_rollout_are_marked_as_not_synced() -> None:
    mine, other = entry("a", uid="1", hash="h", status=SYNCED), entry("b", uid="2", hash="h", status=SYNCED)
    theirs = [entry("b", uid="9", hash="i", status=SYNCED), entry("c", uid="8", hash="i", status=SYNCED)]
    assert with_unsynced([mine, other], theirs) == [mine, entry("b"), entry("c")]
