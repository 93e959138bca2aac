"""Decides from the Cluster and the object in an event alone whether `cluster` has nothing to do."""

from __future__ import annotations

from datetime import UTC, datetime

from shared.api import cluster as cluster_api
from shared.api.conditions import is_true
from shared.api.resources import CLUSTER, KIND_CLUSTER
from shared.clients import LookupResult
from shared.effects import would_change
from shared.event import Event
from shared.kube import Object, deleting, dig, has_finalizer

from .core import core_state
from .decide import decide
from .observe import Observed
from .scope import FINALIZER


def is_reconciled(cluster: Object, event: Event) -> bool:
    """Returns whether the event needs no reconciliation.

    For an infrastructure object, decides on the object in the event, without further reads.
    """
    if event.object is None or event.change == "delete" or deleting(cluster):
        return False
    if core_state(cluster, datetime.now(UTC)) == "live":
        return True
    if event.kind == CLUSTER.kind:
        return _is_provisioned(cluster)
    reference = cluster_api.infrastructure_ref(cluster) or {}
    is_referenced = (reference.get("kind"), reference.get("name")) == (event.kind, event.name)
    if event.kind != KIND_CLUSTER.kind or not is_referenced or cluster_api.control_plane_ref(cluster):
        return False
    found = LookupResult("present", event.kind, event.object, KIND_CLUSTER)
    decision = decide(Observed(cluster, infrastructure=found), datetime.now(UTC))
    return (
        not decision.effects
        and decision.requeue_after is None
        and not would_change(cluster.get("status") or {}, decision.status)
    )


def _is_provisioned(cluster: Object) -> bool:
    """Returns whether the status shows a provisioned Cluster of the current generation, or reports its pause."""
    if cluster_api.is_paused(cluster):
        return is_true(dig(cluster, "status.conditions", []), "Paused")
    return (
        has_finalizer(cluster, FINALIZER)
        and dig(cluster, "status.observedGeneration") == cluster["metadata"].get("generation")
        and dig(cluster, "status.phase") == "Provisioned"
        and not is_true(dig(cluster, "status.conditions", []), "Paused")
        and is_true(dig(cluster, "status.conditions", []), "InfrastructureReady")
        and (
            cluster_api.control_plane_ref(cluster) is None
            or is_true(dig(cluster, "status.conditions", []), "ControlPlaneAvailable")
        )
    )
