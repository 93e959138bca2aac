"""Reads the inputs of a decision about one Cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from shared.api import cluster as cluster_api
from shared.api.cluster import control_plane_ref, infrastructure_ref
from shared.api.core import CoreState, core_state
from shared.api.resources import SECRET
from shared.clients import Clients, LookupResult
from shared.kube import ApiError, Object, deleting, owned_by
from shared.runtime import Request

from . import descendants
from .descendants import Descendants
from .probe import Probe, due, probe

_UNREFERENCED = LookupResult("unreferenced")


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one Cluster."""

    cluster: Object | None
    infrastructure: LookupResult = _UNREFERENCED
    control_plane: LookupResult = _UNREFERENCED
    descendants: Descendants | None = field(default_factory=dict)
    """The Machines of the Cluster and their owners, while it is being deleted all of its objects; None: not read."""
    secrets: tuple[Object, ...] = ()
    """The Secrets that the Cluster owns; only read while it is being deleted."""
    failure: str = ""
    """Why the descendants could not be listed."""
    probe: Probe | None = None
    """The outcome of an attempt to connect to the workload cluster; None: there was none."""
    recorded: bool = False
    """Whether nothing was read: the objects are as the Cluster's status records them."""
    core: CoreState = "none"
    """Whether Cluster API core manages the Cluster, see `core_state`. If so, nothing else is read until core allows
    the deletion."""
    look: bool = False
    """Whether this is one of the looks at objects that have nothing to do; only then a Cluster of core is told of."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the objects that the Cluster refers to and that belong to it, and probes its API server if that is due."""
    key, cluster, now = request.key, request.primary, datetime.now(UTC)
    if cluster is None:
        return Observed(None)
    manager = core_state(cluster, now)
    if manager in ("live", "late") and not (deleting(cluster) and cluster_api.ok_to_delete(cluster)):
        return Observed(cluster, core=manager, look=request.event.resync)
    being_deleted = deleting(cluster)
    infrastructure, control_plane = (
        clients.get_reference(reference, key.namespace, undefined_is_absent=being_deleted, by_contract=True)
        for reference in (infrastructure_ref(cluster), control_plane_ref(cluster))
    )
    observed = Observed(cluster, infrastructure, control_plane, core=manager)
    try:
        if being_deleted:
            return replace(
                observed, descendants=descendants.read_all(clients, cluster), secrets=_secrets(clients, cluster)
            )
        observed = replace(observed, descendants=descendants.read(clients, cluster, request.event))
    except ApiError as error:
        observed = replace(observed, descendants=None, failure=str(error))
    wanted = due(cluster, now, again=request.event.resync)
    return replace(observed, probe=probe(clients, cluster)) if wanted == 0 else observed


def _secrets(clients: Clients, cluster: Object) -> tuple[Object, ...]:
    """Returns the Secrets that the Cluster owns."""
    namespace = cluster["metadata"]["namespace"]
    found = clients.management.list(SECRET, namespace, selector=descendants.selector(cluster))
    return tuple(secret for secret in found if owned_by(secret, cluster))
