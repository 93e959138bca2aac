"""What follows for one Cluster: an ordered list of phases, each of which adds to the scope.

Rules are Cluster API's contract between a Cluster and its infrastructure object (book, "InfraCluster contract").
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.resources import CLUSTER
from shared.effects import ensure_finalizer
from shared.kube import deleting, dig
from shared.runtime import Decision

from .conditions import initialized, mirror
from .deletion import DELETION_RETRY, delete, wait_for_core
from .observe import Observed
from .references import CONTROL_PLANE, INFRASTRUCTURE, allowed, reconcile
from .scope import FINALIZER, Scope, status_of

CORE_RETRY = 30.0
"""Seconds until it is looked again whether core has seen a change: core's writes are no events here."""
CORE_GONE = (
    "Cluster API core managed this Cluster, and has not seen a change for ten minutes: it is managed without core from "
    "now on. Is core to manage it, start core"
)


def decide(observed: Observed, now: datetime) -> Decision:
    cluster = observed.cluster
    if cluster is None:
        return Decision(message="the Cluster is gone")
    if observed.core in ("live", "late"):
        return _beside_core(observed, Scope(cluster, now))
    scope = Scope(cluster, now)
    if observed.core == "gone":
        scope.add_event("ClusterAPIGone", CORE_GONE, "Warning")
    if _paused(scope):
        return Decision(status={"conditions": scope.conditions}, message="paused")
    if not deleting(cluster):
        # The write comes back as an event, but going on at once saves a round.
        scope.effects += ensure_finalizer(CLUSTER, cluster, FINALIZER)
    observed = _allowed(observed)
    reconcile(scope, INFRASTRUCTURE, observed.infrastructure)
    reconcile(scope, CONTROL_PLANE, observed.control_plane)
    mirror(scope, INFRASTRUCTURE, observed.infrastructure)
    mirror(scope, CONTROL_PLANE, observed.control_plane)
    initialized(scope, observed.control_plane)
    if deleting(cluster):
        delete(scope, observed)
    else:
        scope.set("Deleting", "False", "NotDeleting")
    return Decision(
        effects=tuple(scope.effects),
        status=status_of(scope),
        kubernetes_events=tuple(scope.kubernetes_events),
        requeue_after=min(scope.waits, default=None),
        message="; ".join(scope.errors),
    )


def _beside_core(observed: Observed, scope: Scope) -> Decision:
    """What a live Cluster API core manages is not ours to reconcile, and its status is core's to write.

    The end of a Cluster comes once core lets it go: what would be deleted before is what its hooks still need.
    """
    if not deleting(scope.cluster):
        retry = CORE_RETRY if observed.core == "late" else None
        return Decision(requeue_after=retry, message="Cluster API core manages this Cluster")
    if not cluster_api.ok_to_delete(scope.cluster):
        if observed.core == "live":
            return Decision(requeue_after=DELETION_RETRY, message="Cluster API core manages this deletion")
        message = wait_for_core(scope)
        return Decision(status={"conditions": scope.conditions}, requeue_after=DELETION_RETRY, message=message)
    if not _paused(scope):
        delete(scope, _allowed(observed))
    return Decision(
        tuple(scope.effects), requeue_after=min(scope.waits, default=None), message="let go by Cluster API core"
    )


def _allowed(observed: Observed) -> Observed:
    cluster = observed.cluster or {}
    return replace(
        observed,
        infrastructure=allowed(cluster, observed.infrastructure),
        control_plane=allowed(cluster, observed.control_plane),
    )


def _paused(scope: Scope) -> bool:
    reasons = []
    if dig(scope.cluster, "spec.paused") is True:
        reasons.append("Cluster spec.paused is set to true")
    if PAUSED_ANNOTATION in dig(scope.cluster, "metadata.annotations", {}):
        reasons.append("Cluster has the cluster.x-k8s.io/paused annotation")
    if reasons:
        scope.set("Paused", "True", "Paused", ", ".join(reasons))
    else:
        scope.set("Paused", "False", "NotPaused")
    return bool(reasons)
