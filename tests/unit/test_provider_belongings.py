"""What a provider's record says it brought, in tables."""

from __future__ import annotations

from shared.applier.inventory import NOT_SYNCED, SYNCED, InventoryEntry
from shared.kube import Object
from shared.providers.inventory import inventory_of, with_unsynced


def entry(name: str, **more: str) -> InventoryEntry:
    return InventoryEntry("", "v1", "ConfigMap", "n", name, **more)


def provider(*entries: InventoryEntry) -> Object:
    return {"status": {"resources": [each.dump() for each in entries]}}


def test_what_was_being_written_may_have_another_uid() -> None:
    synced, begun = entry("a", uid="1", hash="h", status=SYNCED), entry("b", uid="2", hash="h", status=NOT_SYNCED)
    kept = entry("c", uid="3", status="kept")
    assert inventory_of(provider(synced, begun, kept)) == [synced, entry("b", hash="h"), kept]
    assert inventory_of(None) == inventory_of({}) == []


def test_what_others_wrote_is_applied_again() -> None:
    mine, other = entry("a", uid="1", hash="h", status=SYNCED), entry("b", uid="2", hash="h", status=SYNCED)
    theirs = [entry("b", uid="9", hash="i", status=SYNCED), entry("c", uid="8", hash="i", status=SYNCED)]
    assert with_unsynced([mine, other], theirs) == [mine, entry("b"), entry("c")]
