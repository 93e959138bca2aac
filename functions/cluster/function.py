"""The function `cluster`: reconciles a Cluster with the objects that it refers to."""

from __future__ import annotations

from datetime import UTC, datetime

from shared.api import cluster as cluster_api
from shared.api.conditions import is_true
from shared.api.resources import CLUSTER
from shared.clients import LookupResult
from shared.effects import Results, latest, would_change
from shared.event import Event
from shared.kube import Object, deleting, dig, has_finalizer
from shared.runtime import Decision, Function

from .core import core_state
from .decide import decide
from .observe import Observed, observe
from .scope import FINALIZER
from .triggers import TRIGGERS


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
    resource = None
    if (reference.get("kind"), reference.get("name")) == (event.kind, event.name):
        resource = next(watch.resource for watch in TRIGGERS.watches if watch.resource.kind == event.kind)
    if resource is None or cluster_api.control_plane_ref(cluster):
        return False
    found = LookupResult("present", event.kind, event.object, resource)
    decision = decide(Observed(cluster, infrastructure=found), datetime.now(UTC))
    return (
        not decision.effects
        and decision.requeue_after is None
        and not would_change(cluster.get("status") or {}, decision.status)
    )


def _is_provisioned(cluster: Object) -> bool:
    """Returns whether the status reports a provisioned Cluster of the current generation, without problems."""
    return (
        has_finalizer(cluster, FINALIZER)
        and dig(cluster, "status.observedGeneration") == cluster["metadata"].get("generation")
        and dig(cluster, "status.phase") == "Provisioned"
        and not cluster_api.is_paused(cluster)
        and not is_true(dig(cluster, "status.conditions", []), "Paused")
        and is_true(dig(cluster, "status.conditions", []), "InfrastructureReady")
        and (
            cluster_api.control_plane_ref(cluster) is None
            or is_true(dig(cluster, "status.conditions", []), "ControlPlaneAvailable")
        )
    )


def report(observed: Observed, decision: Decision, results: Results, _now: datetime) -> Decision:
    """Returns the decision to report; if the effects changed the spec, reconciles again first.

    A change of the spec, such as a copied endpoint, increases the generation, but the status of this decision has the
    previous one. It would be written twice, and look outdated to other controllers in between.
    """
    if observed.cluster is None or results.error is not None:
        return decision
    newest = latest(observed.cluster, results)
    changed = dig(newest, "metadata.generation") != dig(observed.cluster, "metadata.generation")
    return Decision(proceed=True) if changed else decision


handle = Function(TRIGGERS, observe, decide, is_reconciled, report=report).handle
