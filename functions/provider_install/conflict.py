"""Cleans up after a sync during which the provider was deleted or changed.

This sync may have overwritten what a concurrent delivery did. If the provider no longer exists, the written objects
are deleted; if it exists, or was created again, they are added to its inventory, to be deleted or applied again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.api import provider as provider_api
from shared.applier import inventory
from shared.applier.inventory import SYNCED, InventoryEntry, Plan
from shared.applier.outcome import SyncIncomplete
from shared.applier.prune import KEPT
from shared.applier.sync import Sync
from shared.clients import Clients
from shared.effects import Patch, Results
from shared.kube import ApiError, Conflict, NotFound, deleting, dig, key_of
from shared.providers.ownership import inventory_of, with_unsynced
from shared.runtime import Decision

from .observe import Observed

_ATTEMPTS = 10


def on_conflict(clients: Clients, observed: Observed, decision: Decision, results: Results) -> None:
    """Adds the written objects to the inventory of the present provider; deletes them if there is no provider.

    Raises:
        ApiError: An object could not be deleted.
    """
    sync = next((effect for effect in decision.effects if isinstance(effect, Sync)), None)
    written = _written(results)
    if observed.provider is None or sync is None or not written:
        return
    for _ in range(_ATTEMPTS):
        try:
            if _hand_over(clients, observed, written):
                return
            break
        except Conflict:
            continue  # the provider has changed again: try once more
        except NotFound:
            break
    try:
        replace(sync, plan=Plan((), tuple(written))).execute(clients)
    except SyncIncomplete as error:
        raise ApiError(f"cannot delete the objects of a deleted provider: {error}") from error


def _written(results: Results) -> Sequence[InventoryEntry]:
    """Returns the written objects. Includes failed writes. One may have succeeded although its response was lost."""
    outcomes = results.of(Sync)
    if isinstance(results.error, SyncIncomplete):
        outcomes.append(results.error.outcome)
    entries = [entry for outcome in outcomes for entry in outcome.entries]
    return [entry for entry in entries if entry.status == SYNCED or (entry.error and entry.status != KEPT)]


def _hand_over(clients: Clients, observed: Observed, written: Sequence[InventoryEntry]) -> bool:
    """Adds the objects to the provider's inventory; returns False if the provider does not exist.

    Raises `Conflict` or `NotFound` if the provider changes meanwhile.
    """
    provider = observed.provider or {}
    resource = provider_api.kind_of(provider).resource
    live = clients.management.find(resource, key_of(provider))
    if live is None:
        return False
    if dig(live, "status.target.inputs") == observed.digest and not deleting(live):
        return True  # the concurrent sync had the same inputs
    resources = inventory.dump(with_unsynced(inventory_of(live), written))
    status = {"resources": resources, "observedGeneration": None}
    Patch(resource, live, {"status": status}, subresource="status").execute(clients)
    return True
