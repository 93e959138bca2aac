"""What follows for one Cluster: an ordered list of phases, each of which adds to the plan.

Rules are Cluster API's contract between a Cluster and its infrastructure object (book, "InfraCluster contract").
"""

from __future__ import annotations

from datetime import datetime

from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.resources import CLUSTER
from shared.effects import ensure_finalizer
from shared.kube import deleting, dig
from shared.runtime import Decision

from .deletion import delete
from .infrastructure import control_plane, infrastructure, infrastructure_ready
from .observe import Observed
from .plan import FINALIZER, Plan, status_of


def decide(observed: Observed, now: datetime) -> Decision:
    cluster = observed.cluster
    if cluster is None:
        return Decision(message="the Cluster is gone")
    plan = Plan(cluster, now)
    if _paused(plan):
        return Decision(status={"conditions": plan.conditions}, message="paused")
    if not deleting(cluster):
        # The write comes back as an event, but going on at once saves a round.
        plan.effects += ensure_finalizer(CLUSTER, cluster, FINALIZER)
    infrastructure(plan, observed.infrastructure)
    control_plane(plan, observed.control_plane)
    infrastructure_ready(plan, observed.infrastructure)
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
