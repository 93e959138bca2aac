"""Not while something depends on it; then webhooks before workloads, kinds last, and the finalizer after everything."""

from __future__ import annotations

from datetime import datetime

from shared.api import provider as provider_api
from shared.api.resources import CONFIG_MAP
from shared.effects import Delete, RemoveFinalizer, Results
from shared.kube import deleting, dig, key_of
from shared.providers.state import INSTALLED, State
from shared.runtime import Decision
from shared.workload import inventory
from shared.workload.inventory import Plan
from shared.workload.outcome import Incomplete, Outcome
from shared.workload.policy import Policy
from shared.workload.rollout import Rollout

from .observe import FORCE, Observed

DELETING = "Deleting"

# Seconds until the next look.
IN_USE_RETRY = 20.0
PARTIAL_RETRY = 10.0


def decide(observed: Observed, now: datetime) -> Decision:
    provider = observed.provider
    if provider is None or not deleting(provider) or observed.management is None:
        return Decision(message="nothing to delete")
    state = State(provider, now)
    forced = dig(provider, FORCE) == "true"
    if not forced and (reason := _in_use(observed)):
        state.true(DELETING, reason[0], reason[1], tell="Normal")
        return Decision(status=state.status(), notices=tuple(state.notices), requeue=IN_USE_RETRY, message=reason[1])
    if observed.entries:
        plan = Plan((), tuple(observed.entries))
        return Decision((Rollout(observed.management.workload, plan, {}, Policy(prune_crds=forced)),))
    downloads = [Delete(CONFIG_MAP, download) for download in observed.downloads]
    resource = provider_api.kind_of(provider).resource
    return Decision((*downloads, RemoveFinalizer(resource, provider, provider_api.FINALIZER)), message="deleted")


def _in_use(observed: Observed) -> tuple[str, str] | None:
    annotate = f"or annotate the provider with {FORCE[-1]}: true to have them go, too"
    if observed.custom:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(observed.custom.items()))
        total = sum(observed.custom.values())
        return "CustomResourcesExist", f"{total} objects of its kinds exist: {counts}; delete them, {annotate}"
    if observed.others:
        names = ", ".join(f"{other['kind']} {key_of(other)}" for other in observed.others[:5])
        return "OtherProvidersExist", f"other providers need it: {names}; delete them first, {annotate}"
    return None


def report(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision:
    """After a removal: what is left, and why; or, with nothing left, the last step at once."""
    provider = observed.provider
    if provider is None or not any(isinstance(effect, Rollout) for effect in decision.effects):
        return decision
    state = State(provider, now)
    if isinstance(results.error, Incomplete):
        left, message = results.error.outcome.entries, str(results.error)
        results.error = None
    elif results.error is not None:
        return decision
    else:
        left = next(value for value in results.values if isinstance(value, Outcome)).entries
        message = "; ".join(f"{entry}: {entry.error}" for entry in left[:3])
    if not left:
        return Decision(status=state.status(resources=None), proceed=True)
    state.false(INSTALLED, "OldComponentsDeletionError", message, tell="Warning")
    status = state.status(resources=inventory.dump(left))
    return Decision(status=status, notices=tuple(state.notices), requeue=PARTIAL_RETRY, message=message)
