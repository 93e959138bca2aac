"""Deletes a ClusterStack: its releases first, each of which waits for the Clusters that use it."""

from __future__ import annotations

from shared.api.conditions import abridged, get_condition
from shared.api.resources import CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.effects import Delete, RemoveFinalizer
from shared.kube import Object, deleting, dig, has_finalizer, key_of
from shared.runtime import Decision

from .conditions import RELEASES, StackStatusBuilder
from .observe import Observed
from .selection import MAX_RELEASES

FINALIZER = "clusterstack.clusterstack.x-k8s.io"
"""Keeps the ClusterStack until its releases are gone, which may wait for the Clusters that use them."""

DELETION_RETRY = 20.0
"""Seconds until the next reconciliation."""


def reconcile_deletion(builder: StackStatusBuilder, observed: Observed) -> Decision:
    """Deletes the releases and waits until they are gone, then removes the finalizer."""
    stack = observed.stack or {}
    if not has_finalizer(stack, FINALIZER):
        return Decision(message="being deleted")
    if not observed.releases:
        return Decision(effects=(RemoveFinalizer(CLUSTER_STACK, stack, FINALIZER),), message="finalized")
    lines = [f"{key_of(release).name}{_blocked_reason(release)}" for release in observed.releases]
    builder.set_false(RELEASES, "Deleting", f"waiting for releases to be deleted: {abridged(lines)}")
    effects = [Delete(CLUSTER_STACK_RELEASE, r) for r in observed.releases if not deleting(r)][:MAX_RELEASES]
    return builder.decision(*effects, requeue_after=DELETION_RETRY, message="waiting for releases to be deleted")


def _blocked_reason(release: Object) -> str:
    blocked = get_condition(dig(release, "status.conditions", []), "HelmChartDeleted") or {}
    return f" ({blocked['message']})" if blocked.get("message") else ""
