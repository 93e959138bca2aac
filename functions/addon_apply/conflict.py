"""Handles a sync during which another replica has changed the ClusterAddon. Its objects may be out of date."""

from __future__ import annotations

from shared.addons.secret_record import DeleteSecret
from shared.api.resources import CLUSTER_ADDON
from shared.applier.sync import Sync
from shared.clients import Clients
from shared.effects import Results
from shared.kube import MANAGER, deleting, key_of
from shared.runtime import Decision

from .observe import Observed


def on_conflict(clients: Clients, observed: Observed, decision: Decision, results: Results) -> None:
    """Marks the addon as not applied, so that everything is verified and repaired again.

    If the addon was deleted meanwhile, deletes the Secrets that this sync may have written after the deletion.
    """
    context = observed.context
    started = next((n for n, effect in enumerate(decision.effects) if isinstance(effect, Sync)), None)
    if context is None or started is None or len(results.executed) < started:
        return
    key = key_of(context.addon)
    addon = clients.management.find(CLUSTER_ADDON, key)
    if addon is None:
        DeleteSecret(context.addon, "manifests").execute(clients)
        DeleteSecret(context.addon, "generated").execute(clients)
    elif not deleting(addon) and not context.target.was_synced_last(addon):
        not_applied = {"status": {"ready": False, "digest": None}}
        clients.management.patch(CLUSTER_ADDON, key, not_applied, subresource="status", manager=MANAGER)
