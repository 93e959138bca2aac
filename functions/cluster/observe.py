"""Reads the inputs of a decision about one Cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from shared.api import cluster as cluster_api
from shared.api.cluster import control_plane_ref, infrastructure_ref
from shared.api.core import core_state, is_new
from shared.api.resources import CLUSTER
from shared.clients import Clients
from shared.kube import ApiError, Key, Object, deleting, dig
from shared.references import get_reference
from shared.runtime import Request

from . import descendants
from .deletion import waits_for_reference
from .lookups import class_gates, core_runs, is_watched
from .observed import Observed
from .probe import due, probe
from .recorded import recorded, shows_machines, shows_no_machines, uses_class_gates
from .references import check_contract


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the objects that the Cluster refers to and that belong to it, and probes its API server if that is due."""
    key, cluster, now = request.key, request.primary, datetime.now(UTC)
    if cluster is None:
        return Observed(None)
    manager = core_state(cluster, now, is_running=is_new(cluster) and core_runs(clients))
    if manager in ("live", "late") and not (deleting(cluster) and cluster_api.ok_to_delete(cluster)):
        return Observed(cluster, core=manager, look=request.event.is_look)
    wanted = due(cluster, now, again=request.event.is_look)
    gates = _class_gates(clients, cluster)
    known = recorded(cluster, request.event, manager) if wanted == 0 and _is_probe_alone(request) else None
    if known is not None and "failed" not in (known.infrastructure.state, known.control_plane.state):
        return replace(known, class_gates=gates, probe=probe(clients, cluster))
    being_deleted = deleting(cluster)
    infrastructure, control_plane = (
        check_contract(
            get_reference(clients, reference, key.namespace, undefined_is_absent=being_deleted, by_contract=True)
        )
        for reference in (infrastructure_ref(cluster), control_plane_ref(cluster))
    )
    observed = Observed(cluster, infrastructure, control_plane, class_gates=gates, core=manager)
    unwatched = tuple(
        found.resource
        for found in (infrastructure, control_plane)
        if found.resource and found.contract and not is_watched(clients, found.resource)
    )
    observed = replace(observed, unwatched=unwatched, look=request.event.is_look)
    try:
        if being_deleted:
            found = None if waits_for_reference(observed) else descendants.read_all(clients, cluster)
            return replace(observed, descendants=found)
        if request.event.is_look or not shows_no_machines(cluster, request.event):
            verify = shows_machines(cluster, request.event)
            observed = replace(observed, descendants=descendants.read(clients, cluster, verify=verify))
    except ApiError as error:
        observed = replace(observed, descendants=None, failure=str(error))
    return replace(observed, probe=probe(clients, cluster)) if wanted == 0 else observed


def _is_probe_alone(request: Request) -> bool:
    """Returns whether only an attempt to connect is due, and the event concerns no object that must be read again."""
    cluster, event = request.primary, request.event
    is_current = dig(cluster, "status.observedGeneration") == dig(cluster, "metadata.generation")
    return is_current and event.key == request.key and event.kind == CLUSTER.kind and not event.is_look


def _class_gates(clients: Clients, cluster: Object) -> tuple[Object, ...]:
    if not uses_class_gates(cluster):
        return ()
    try:
        return class_gates(clients, Key(cluster_api.class_namespace(cluster), cluster_api.class_name(cluster) or ""))
    except ApiError:
        if deleting(cluster):  # a class that cannot be read must not hold the deletion up
            return ()
        raise
