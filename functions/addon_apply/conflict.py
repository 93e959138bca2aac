"""What is left to do where another replica went on meanwhile: what was applied here came after it."""

from __future__ import annotations

from shared.addons import kept_values, manifest_history
from shared.addons.context import Case
from shared.api.resources import CLUSTER_ADDON
from shared.applier.rollout import Rollout
from shared.clients import Clients
from shared.effects import MANAGER, Results
from shared.kube import deleting, key_of
from shared.runtime import Decision

from .observe import Observed


def on_conflict(clients: Clients, observed: Observed, decision: Decision, results: Results) -> None:
    """The addon forgets that it is done, so that everything is looked at and repaired once more. Of one that was let
    go meanwhile nothing is kept.
    """
    case = observed.found
    started = next((n for n, effect in enumerate(decision.effects) if isinstance(effect, Rollout)), None)
    if not isinstance(case, Case) or started is None or len(results.values) < started:
        return
    key = key_of(case.addon)
    addon = clients.management.find(CLUSTER_ADDON, key)
    if addon is None or deleting(addon):
        manifest_history.Forget(case.addon).execute(clients)
        kept_values.Forget(case.addon).execute(clients)
    elif not case.goal.is_begun(addon):
        doubt = {"status": {"ready": False, "digest": None}}
        clients.management.patch(CLUSTER_ADDON, key, doubt, subresource="status", manager=MANAGER)
