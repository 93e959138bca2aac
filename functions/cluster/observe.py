"""What is read for a decision about one Cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.api.cluster import CLUSTER_NAME_LABEL, control_plane_ref, infrastructure_ref
from shared.api.resources import CLUSTER_ADDON, MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET, SECRET
from shared.clients import Clients, Found
from shared.kube import ApiError, Key, Object, Resource, deleting, owned_by

DESCENDANTS = (CLUSTER_ADDON, MACHINE_POOL, MACHINE_DEPLOYMENT, MACHINE_SET, MACHINE)
"""In the order in which they are deleted."""

_NOTHING = Found("unreferenced")


@dataclass(frozen=True)
class Observed:
    cluster: Object | None
    infrastructure: Found = _NOTHING
    control_plane: Found = _NOTHING
    descendants: dict[Resource, tuple[Object, ...]] = field(default_factory=dict)
    """By kind; read only while the Cluster is being deleted."""
    secrets: tuple[Object, ...] = ()
    """The Cluster's own Secrets; read only while it is being deleted."""
    failure: str = ""
    """Why the descendants could not be listed."""


def observe(clients: Clients, key: Key, cluster: Object | None) -> Observed:
    if cluster is None:
        return Observed(None)
    infrastructure = clients.look_up(infrastructure_ref(cluster), key.namespace)
    control_plane = clients.look_up(control_plane_ref(cluster), key.namespace)
    if not deleting(cluster):
        return Observed(cluster, infrastructure, control_plane)
    try:
        descendants = {resource: _belonging(clients, resource, cluster) for resource in DESCENDANTS}
        secrets = tuple(s for s in _belonging(clients, SECRET, cluster) if owned_by(s, cluster))
    except ApiError as error:
        return Observed(cluster, infrastructure, control_plane, failure=str(error))
    return Observed(cluster, infrastructure, control_plane, descendants, secrets)


def _belonging(clients: Clients, resource: Resource, cluster: Object) -> tuple[Object, ...]:
    """Objects with the Cluster's label, or owned by it; none where the kind is not served."""
    served = clients.discovery.preferred(resource.group, resource.kind)
    if served is None:
        return ()
    namespace, name = cluster["metadata"]["namespace"], cluster["metadata"]["name"]
    selector = "" if resource == CLUSTER_ADDON else f"{CLUSTER_NAME_LABEL}={name}"
    found = clients.management.list(served, namespace, selector=selector)
    return tuple(obj for obj in found if selector or owned_by(obj, cluster))
