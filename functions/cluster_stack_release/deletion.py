"""Deletes a release once no Cluster uses its class: its objects, then the provider's object, then its finalizer."""

from __future__ import annotations

from shared.api.conditions import abridged
from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.applier import inventory
from shared.applier.sync import Sync
from shared.effects import Delete, Effect, RemoveFinalizer
from shared.kube import deleting, dig, has_finalizer, owned_by
from shared.references import NOT_ALLOWED
from shared.releases.usage import FINALIZER
from shared.runtime import Decision

from .conditions import DELETED, PROVIDER, PROVIDER_RETRY, ReleaseStatusBuilder
from .observe import Observed
from .ownership import policy, release_inventory

IN_USE_RETRY = 60.0
"""Seconds until the next reconciliation."""


def reconcile_deletion(builder: ReleaseStatusBuilder, observed: Observed) -> Decision:
    """Prunes the release's objects and deletes the provider's object, or reports what the deletion waits for."""
    release = observed.release or {}
    if not has_finalizer(release, FINALIZER):
        return Decision(message="being deleted")
    if observed.management is None:
        message = f"cannot determine which Clusters use the ClusterClass of the release: {observed.failure}"
        builder.set_false(DELETED, "ClustersNotReadable", message, "Error", event_type="Warning")
        return builder.decision(requeue_after=IN_USE_RETRY, message=message)
    if observed.users:
        users = abridged([*map(str, observed.users)], 5, ", ")
        message = f"the ClusterClass of the release is in use by Cluster {users}"
        builder.set_false(DELETED, "ClusterClassInUse", message)
        return builder.decision(requeue_after=IN_USE_RETRY, message=message)
    effects: list[Effect] = []
    prune = tuple(entry for entry in release_inventory(release) if entry.identity not in observed.claimed)
    if prune and observed.name is not None:
        owned = policy(release, observed.name, observed.recorded)
        effects.append(Sync(observed.management.cluster, inventory.Plan((), prune), {}, owned))
    provider = observed.provider
    # The functions ignore a reference that is not allowed, so it needs no clean-up.
    if provider.state in ("unreferenced", "absent") or provider.reason == NOT_ALLOWED:
        effects.append(RemoveFinalizer(CLUSTER_STACK_RELEASE, release, FINALIZER))
        return Decision(tuple(effects), message="finalized")
    what = f"{provider.kind} {dig(release, 'spec.providerRef.name', '')}"
    if provider.object is None or provider.resource is None:
        message = f"cannot determine whether {what} is deleted: {provider.error}"
    elif not owned_by(provider.object, release):
        effects.append(RemoveFinalizer(CLUSTER_STACK_RELEASE, release, FINALIZER))
        return Decision(tuple(effects), message="finalized")
    else:
        message = f"waiting for {what} to be deleted"
        if not deleting(provider.object):
            effects.append(Delete(provider.resource, provider.object))
    builder.set_false(PROVIDER, "Deleting", message)
    return builder.decision(*effects, requeue_after=PROVIDER_RETRY, message=message)
