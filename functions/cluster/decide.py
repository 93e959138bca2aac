"""What follows for one Cluster: an ordered list of phases, each of which adds to the plan.

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
from shared.runtime import Decision, Notice

from .conditions import initialized, mirror
from .deletion import DELETION_RETRY, delete, wait_for_core
from .observe import Observed
from .plan import FINALIZER, Plan, status_of
from .references import CONTROL_PLANE, INFRASTRUCTURE, allowed, reconcile

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
        return _beside_core(observed, Plan(cluster, now))
    plan = Plan(cluster, now)
    if observed.core == "gone":
        plan.notices.append(Notice("ClusterAPIGone", CORE_GONE, "Warning"))
    if _paused(plan):
        return Decision(status={"conditions": plan.conditions}, message="paused")
    if not deleting(cluster):
        # The write comes back as an event, but going on at once saves a round.
        plan.effects += ensure_finalizer(CLUSTER, cluster, FINALIZER)
    observed = _allowed(observed)
    reconcile(plan, INFRASTRUCTURE, observed.infrastructure)
    reconcile(plan, CONTROL_PLANE, observed.control_plane)
    mirror(plan, INFRASTRUCTURE, observed.infrastructure)
    mirror(plan, CONTROL_PLANE, observed.control_plane)
    initialized(plan, observed.control_plane)
    if deleting(cluster):
        delete(plan, observed)
    else:
        plan.condition("Deleting", "False", "NotDeleting")
    return Decision(
        effects=tuple(plan.effects),
        status=status_of(plan),
        notices=tuple(plan.notices),
        requeue=min(plan.waits, default=None),
        message="; ".join(plan.errors),
    )


def _beside_core(observed: Observed, plan: Plan) -> Decision:
    """What a live Cluster API core manages is not ours to reconcile, and its status is core's to write.

    The end of a Cluster comes once core lets it go: what would be deleted before is what its hooks still need.
    """
    if not deleting(plan.cluster):
        retry = CORE_RETRY if observed.core == "late" else None
        return Decision(requeue=retry, message="Cluster API core manages this Cluster")
    if not cluster_api.ok_to_delete(plan.cluster):
        if observed.core == "live":
            return Decision(requeue=DELETION_RETRY, message="Cluster API core manages this deletion")
        message = wait_for_core(plan)
        return Decision(status={"conditions": plan.conditions}, requeue=DELETION_RETRY, message=message)
    if not _paused(plan):
        delete(plan, _allowed(observed))
    return Decision(tuple(plan.effects), requeue=min(plan.waits, default=None), message="let go by Cluster API core")


def _allowed(observed: Observed) -> Observed:
    cluster = observed.cluster or {}
    return replace(
        observed,
        infrastructure=allowed(cluster, observed.infrastructure),
        control_plane=allowed(cluster, observed.control_plane),
    )


def _paused(plan: Plan) -> bool:
    reasons = []
    if dig(plan.cluster, "spec.paused") is True:
        reasons.append("Cluster spec.paused is set to true")
    if PAUSED_ANNOTATION in dig(plan.cluster, "metadata.annotations", {}):
        reasons.append("Cluster has the cluster.x-k8s.io/paused annotation")
    if reasons:
        plan.condition("Paused", "True", "Paused", ", ".join(reasons))
    else:
        plan.condition("Paused", "False", "NotPaused")
    return bool(reasons)
