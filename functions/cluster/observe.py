"""What is read for a decision about one Cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from shared.api import cluster as cluster_api
from shared.api.cluster import CLUSTER_NAME_LABEL, control_plane_ref, infrastructure_ref
from shared.api.resources import CLUSTER_ADDON, MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET, SECRET
from shared.clients import Clients, LookupResult
from shared.kube import ApiError, Key, Object, Resource, deleting, owned_by
from shared.kube.crds import list_defined

from .core import State, core

DESCENDANTS = (CLUSTER_ADDON, MACHINE_POOL, MACHINE_DEPLOYMENT, MACHINE_SET, MACHINE)
"""In the order in which they are deleted."""

_NOTHING = LookupResult("unreferenced")


@dataclass(frozen=True)
class Observed:
    cluster: Object | None
    infrastructure: LookupResult = _NOTHING
    control_plane: LookupResult = _NOTHING
    descendants: dict[Resource, tuple[Object, ...]] = field(default_factory=dict)
    """By kind; read only while the Cluster is being deleted."""
    secrets: tuple[Object, ...] = ()
    """The Cluster's own Secrets; read only while it is being deleted."""
    failure: str = ""
    """Why the descendants could not be listed."""
    core: State = "none"
    """Whether Cluster API core looks after the Cluster; then nothing else is read before it lets the Cluster go."""


def observe(clients: Clients, key: Key, cluster: Object | None) -> Observed:
    if cluster is None:
        return Observed(None)
    manager = core(cluster, datetime.now(UTC))
    if manager in ("live", "late") and not (deleting(cluster) and cluster_api.ok_to_delete(cluster)):
        return Observed(cluster, core=manager)
    gone = deleting(cluster)
    infrastructure = clients.get_reference(infrastructure_ref(cluster), key.namespace, undefined_is_absent=gone)
    control_plane = clients.get_reference(control_plane_ref(cluster), key.namespace, undefined_is_absent=gone)
    observed = Observed(cluster, infrastructure, control_plane, core=manager)
    if not gone:
        return observed
    try:
        descendants = {resource: _belonging(clients, resource, cluster) for resource in DESCENDANTS}
        secrets = tuple(clients.management.list(SECRET, key.namespace, selector=f"{CLUSTER_NAME_LABEL}={key.name}"))
    except ApiError as error:
        return Observed(cluster, infrastructure, control_plane, failure=str(error), core=manager)
    own = tuple(secret for secret in secrets if owned_by(secret, cluster))
    return Observed(cluster, infrastructure, control_plane, descendants, own, core=manager)


def _belonging(clients: Clients, resource: Resource, cluster: Object) -> tuple[Object, ...]:
    """Objects with the Cluster's label, or owned by it. Raises `ApiError`, also where the kind is not served."""
    namespace, name = cluster["metadata"]["namespace"], cluster["metadata"]["name"]
    selector = "" if resource == CLUSTER_ADDON else f"{CLUSTER_NAME_LABEL}={name}"
    found = list_defined(clients.management, resource, namespace, selector=selector)
    return tuple(obj for obj in found if selector or owned_by(obj, cluster))
