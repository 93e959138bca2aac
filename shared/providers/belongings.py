"""What a provider has brought into the cluster, by its own record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from shared.applier import inventory
from shared.applier.inventory import NOT_SYNCED, Entry
from shared.kube import dig


def belongings(provider: Mapping[str, Any] | None) -> list[Entry]:
    """All of its inventory; without uid where writing was begun, since the object may have been made anew by that."""
    entries = inventory.load(dig(provider, "status.resources"))
    return [replace(entry, uid="") if entry.status == NOT_SYNCED else entry for entry in entries]


def in_doubt(entries: Iterable[Entry], written: Iterable[Entry]) -> list[Entry]:
    """The inventory once somebody else has `written` objects behind its back: these are to be applied again."""
    doubtful = [replace(entry, uid="", hash="", status=NOT_SYNCED) for entry in written]
    return list({entry.identity: entry for entry in (*entries, *doubtful)}.values())
