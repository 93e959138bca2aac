"""The function `addon_apply`: applies the addons of a Cluster's release to the workload cluster."""

from __future__ import annotations

from collections.abc import Collection

from shared.addons.context import ReleaseContext
from shared.addons.secret_record import DeleteSecret
from shared.api.resources import CLUSTER_ADDON
from shared.applier.sync import Sync
from shared.clients import Clients
from shared.effects import Results
from shared.kube import MANAGER, deleting, key_of
from shared.runtime import Decision, Function
from shared.runtime.keyed_lock import KeyedLock

from .decide import decide
from .observe import Observed, observe
from .triggers import TRIGGERS


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


def _looked_up_secrets(observed: Observed) -> Collection[str]:
    """Returns the values of Secrets that templates read by `lookup`, because any rendered object may contain them."""
    live = observed.context.capabilities.live if isinstance(observed.context, ReleaseContext) else None
    return live.secrets if live is not None else ()


FUNCTION = Function(
    TRIGGERS,
    observe,
    decide,
    on_conflict=on_conflict,
    sensitive_values=_looked_up_secrets,
    is_sole_writer=True,
    lock=KeyedLock("this addon"),
)

handle = FUNCTION.handle
