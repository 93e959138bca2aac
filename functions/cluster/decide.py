"""Decides about one Cluster in an ordered list of phases, each of which adds to the builder.

The rules come from the Cluster API book, "InfraCluster contract".
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.core import CORE_ANNOTATION, MANAGED_BY_CORE
from shared.api.resources import CLUSTER
from shared.api.v1beta1 import has_older_conditions_only
from shared.effects import Patch, Results, ensure_finalizer, latest
from shared.kube import Object, deleting, dig
from shared.runtime import Decision, KubernetesEvent

from . import counters
from .conditions import (
    set_available,
    set_control_plane_available,
    set_control_plane_initialized,
    set_infrastructure_ready,
)
from .deletion import DELETION_RETRY, reconcile_deletion, wait_for_core
from .deprecated import deprecated
from .machines import AGGREGATES, set_aggregate, set_remediating
from .observed import Observed
from .probe import set_remote_connection_probe
from .references import CONTROL_PLANE, INFRASTRUCTURE, REFERENCE_RETRY, check_reference, reconcile_reference
from .status import FINALIZER, ClusterStatusBuilder, status_fields

CORE_RETRY = 30.0
"""Seconds until the next check whether core has observed a change: core's writes do not trigger this function."""
CORE_GONE = (
    "Cluster API core managed this Cluster but has not observed a change for ten minutes, so functions reconcile the "
    "Cluster until core writes its status again. To have core manage the Cluster, start core"
)
NOT_WATCHED = (
    "No event source watches {kind} ({group}), so changes of this kind reach the Cluster with a delay: apply the "
    "output of `capi-functions sources`, which lists the kinds of all providers"
)
LEFT_TO_CORE = KubernetesEvent(
    MANAGED_BY_CORE,
    "Cluster API core manages this Cluster, so functions leave it to core. If core no longer runs, annotate the "
    f"Cluster with {CORE_ANNOTATION}: ignore to have functions reconcile it at once",
    once=True,
)


def decide(observed: Observed, now: datetime, results: Results | None = None) -> Decision:
    """Runs the phases in order, or leaves the Cluster to Cluster API core if core manages it.

    If the effects changed the spec by copying an endpoint, the status is about the new generation. With the former
    generation, the status would need a second write, and other controllers would take it for outdated meanwhile.
    """
    cluster = observed.cluster
    if cluster is None:
        return Decision(message="the Cluster does not exist")
    newest = latest(cluster, results) if results else cluster
    if dig(newest, "metadata.generation") != dig(cluster, "metadata.generation"):
        return decide(replace(observed, cluster=dict(newest)), now)
    if observed.core in ("live", "late"):
        return _decide_beside_core(observed, ClusterStatusBuilder(cluster, now))
    builder = ClusterStatusBuilder(cluster, now)
    if observed.core == "gone":
        builder.add_event("ClusterAPIGone", CORE_GONE, "Warning")
    if _set_paused(builder):
        return Decision(status={"conditions": builder.conditions}, message="paused")
    if not deleting(cluster):
        # Adding the finalizer triggers another event, but continuing at once saves a reconciliation.
        builder.effects += ensure_finalizer(CLUSTER, cluster, FINALIZER)
    observed = _check_references(observed)
    for role, found in ((INFRASTRUCTURE, observed.infrastructure), (CONTROL_PLANE, observed.control_plane)):
        reconcile_reference(builder, role, found, watched=found.resource not in observed.unwatched)
    _report_unwatched(builder, observed)
    _set_conditions(builder, observed)
    if deleting(cluster):
        reconcile_deletion(builder, observed)
    else:
        builder.set("Deleting", "False", "NotDeleting")
    set_available(builder, observed)
    fields = {**status_fields(builder), **_replicas(observed), "deprecated": deprecated(builder, observed)}
    return builder.decision(
        *builder.effects, requeue_after=min(builder.waits, default=None), message="; ".join(builder.errors), **fields
    )


def _set_conditions(builder: ClusterStatusBuilder, observed: Observed) -> None:
    """Sets the conditions about the objects of the Cluster."""
    if observed.failure and not deleting(builder.cluster):
        builder.errors.append(observed.failure)
        builder.waits.append(REFERENCE_RETRY)
    set_remote_connection_probe(builder, observed.probe, waits_on=observed.recorded and not observed.ended_wait)
    set_infrastructure_ready(builder, observed)
    set_control_plane_initialized(builder, observed)
    set_control_plane_available(builder, observed)
    for one in AGGREGATES:
        set_aggregate(builder, observed, one)
    set_remediating(builder, observed)


def _replicas(observed: Observed) -> Object:
    """Returns the counters of the status; counters of objects that were not read stay unchanged."""
    if observed.recorded or has_older_conditions_only(observed.cluster or {}):  # then there is no place for them
        return {}
    fields: Object = {}
    counted = observed.descendants if observed.control_plane.state == "unreferenced" else observed.control_plane.object
    if counted is not None or observed.control_plane.state == "absent":
        fields["controlPlane"] = counters.of_control_plane(observed.control_plane, observed.descendants)
    if observed.descendants is not None:
        fields["workers"] = counters.of_workers(observed.cluster or {}, observed.descendants)
    return fields


def _report_unwatched(builder: ClusterStatusBuilder, observed: Observed) -> None:
    """Warns that changes of referenced objects start no function: when they are adopted, and at each resync."""
    adopted = [one.resource for one in builder.effects if isinstance(one, Patch)]
    for kind in observed.unwatched:
        if observed.look or kind in adopted:
            message = NOT_WATCHED.format(kind=kind.kind, group=kind.group)
            builder.kubernetes_events.append(KubernetesEvent("KindNotWatched", message, "Warning", once=True))


def _decide_beside_core(observed: Observed, builder: ClusterStatusBuilder) -> Decision:
    """While Cluster API core manages the Cluster, changes nothing, not even the status, until core allows the deletion.

    Only then deletes the Cluster's objects, because core's BeforeClusterDelete hooks need them.
    """
    if not deleting(builder.cluster):
        retry = CORE_RETRY if observed.core == "late" else None
        events = (LEFT_TO_CORE,) if observed.look else ()
        return Decision(kubernetes_events=events, requeue_after=retry, message="Cluster API core manages this Cluster")
    if not cluster_api.ok_to_delete(builder.cluster):
        if observed.core == "live":
            return Decision(requeue_after=DELETION_RETRY, message="Cluster API core manages this deletion")
        message = wait_for_core(builder)
        return Decision(status={"conditions": builder.conditions}, requeue_after=DELETION_RETRY, message=message)
    if not _set_paused(builder):
        reconcile_deletion(builder, _check_references(observed))
    return Decision(
        tuple(builder.effects),
        requeue_after=min(builder.waits, default=None),
        message="Cluster API core allows deletion",
    )


def _check_references(observed: Observed) -> Observed:
    cluster = observed.cluster or {}
    return replace(
        observed,
        infrastructure=check_reference(cluster, observed.infrastructure),
        control_plane=check_reference(cluster, observed.control_plane),
    )


def _set_paused(builder: ClusterStatusBuilder) -> bool:
    """Sets the condition `Paused`, and returns whether the Cluster is paused."""
    reasons = []
    if dig(builder.cluster, "spec.paused") is True:
        reasons.append("Cluster spec.paused is set to true")
    if PAUSED_ANNOTATION in dig(builder.cluster, "metadata.annotations", {}):
        reasons.append("Cluster has the cluster.x-k8s.io/paused annotation")
    if reasons:
        builder.set("Paused", "True", "Paused", ", ".join(reasons))
    else:
        builder.set("Paused", "False", "NotPaused")
    return bool(reasons)
