"""Decides the next step of a deletion: wait for dependants, delete webhooks, workloads and CRDs, remove the finalizer.

With the force annotation the CRDs come first, with all custom resources, while the provider's controllers still run and
can remove their finalizers.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from shared.api import cluster as cluster_api
from shared.api import provider as provider_api
from shared.api.resources import CONFIG_MAP
from shared.applier import inventory
from shared.applier.inventory import Plan
from shared.applier.outcome import SyncIncomplete
from shared.applier.policy import Policy
from shared.applier.sync import Sync
from shared.effects import Delete, RemoveFinalizer, Results
from shared.kube import deleting, dig, key_of
from shared.providers import ownership
from shared.providers.status import DELETING, PROVIDER_INSTALLED, ProviderStatusBuilder
from shared.runtime import Decision

from .observe import FORCE, Observed, is_crd

IN_USE_RETRY = 20.0
"""Seconds until dependants are counted again."""
PARTIAL_RETRY = 10.0
"""Seconds until the next step of the deletion."""

CONTROLLER_TIMEOUT = timedelta(minutes=10)
"""The time that controllers have to remove finalizers. Then all objects are deleted: webhooks may stop them."""


def decide(observed: Observed, now: datetime, results: Results | None = None) -> Decision:
    """Decides the next step: a wait while the provider is in use, deletions, or the removal of the finalizer."""
    provider = observed.provider
    if provider is None or not deleting(provider) or observed.management is None:
        return Decision(message="nothing to delete")
    if cluster_api.is_paused(provider):
        return Decision(message="paused")
    builder = ProviderStatusBuilder(provider, now)
    forced = dig(provider, FORCE) == "true"
    if not forced and (reason := _in_use(observed)):
        builder.set_true(DELETING, reason[0], reason[1], event_type="Normal", progress=True)
        return builder.decision(requeue_after=IN_USE_RETRY, message=reason[1])
    if observed.inventory:
        plan = _plan(observed, now, forced=forced)
        if results is not None and isinstance(results.error, SyncIncomplete | None):
            return replace(_report(builder, observed, plan, results, results.error), reports=results.error)
        policy = Policy(ownership.owner(provider), prune_crds=forced)
        return Decision((Sync(observed.management.cluster, plan, {}, policy),))
    downloads = [Delete(CONFIG_MAP, download) for download in observed.downloads]
    resource = provider_api.kind_of(provider).resource
    return Decision((*downloads, RemoveFinalizer(resource, provider, provider_api.FINALIZER)), message="deleted")


def _plan(observed: Observed, now: datetime, *, forced: bool) -> Plan:
    kinds = tuple(entry for entry in observed.inventory if is_crd(entry))
    overdue = observed.crds_deleted_at is not None and now - observed.crds_deleted_at > CONTROLLER_TIMEOUT
    if not (forced and observed.custom_resources) or overdue:
        return Plan((), tuple(observed.inventory))
    return Plan((), kinds, tuple(entry for entry in observed.inventory if entry not in kinds))


def _in_use(observed: Observed) -> tuple[str, str] | None:
    """Returns reason and message of why the provider may not be deleted yet; None if it may."""
    annotation = f"the annotation {FORCE[-1]}: true on the provider"
    if observed.custom_resources:
        what = f"objects of the provider's kinds exist: {_counts(observed)}"
        return "CustomResourcesExist", f"{what}; delete them, or set {annotation} to have them deleted"
    if observed.others:
        names = ", ".join(f"{other['kind']} {key_of(other)}" for other in observed.others[:5])
        what = f"other providers need the core provider: {names}"
        return "OtherProvidersExist", f"{what}; delete them first, or set {annotation} to delete it anyway"
    return None


def _counts(observed: Observed) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(observed.custom_resources.items()))


def _report(
    builder: ProviderStatusBuilder, observed: Observed, plan: Plan, results: Results, error: SyncIncomplete | None
) -> Decision:
    """Reports which objects are left; once none is left, the next reconciliation removes the finalizer."""
    if plan.rest and error is not None:
        message = f"deleting the CRDs with their objects first: {_counts(observed)}; finalizers may delay this"
        builder.set_true(DELETING, "CustomResourcesGoing", message, event_type="Normal", progress=True)
        return builder.decision(requeue_after=PARTIAL_RETRY, message=message)
    left = (error.outcome if error else results.of(Sync)[-1]).entries
    if plan.rest or not left:  # the other objects follow once CRDs and custom resources are gone
        return builder.decision(proceed=True, resources=inventory.dump(left) if left else None)
    message = str(error) if error else "; ".join(f"{entry}: {entry.error}" for entry in left[:3])
    builder.set_false(PROVIDER_INSTALLED, "OldComponentsDeletionError", message, event_type="Warning")
    return builder.decision(requeue_after=PARTIAL_RETRY, message=message, resources=inventory.dump(left))
