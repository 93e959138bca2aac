"""Reads the objects that belong to a Cluster, and the reports of Machines and their owners.

Cluster API's objects are converted to v1beta2, whichever version the API server serves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from shared.api.cluster import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL
from shared.api.resources import (
    CLUSTER_ADDON,
    HELM_RELEASE_PROXY,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_POOL,
    MACHINE_SET,
)
from shared.clients import Clients
from shared.event import Event
from shared.helm_proxies import cluster_deletion
from shared.kube import NotServed, Object, Resource, dig, key_of, owned_by
from shared.kube.crds import list_defined
from shared.kube.resources import split_api_version

WORKERS = (MACHINE_POOL, MACHINE_DEPLOYMENT, MACHINE_SET)
"""The kinds that own Machines."""
MACHINES = (*WORKERS, MACHINE)
DESCENDANTS = (CLUSTER_ADDON, *MACHINES)
"""The kinds of objects that belong to a Cluster, in the order of their deletion."""

POOL_LABEL = "cluster.x-k8s.io/pool-name"
"""The label of Machines of a MachinePool, which report no conditions of their own."""

Descendants = Mapping[Resource, tuple[Object, ...]]
"""The objects of a Cluster by kind, as in `DESCENDANTS`, whatever the version of its objects.

During a deletion also the HelmReleaseProxies whose releases are uninstalled first.
"""


def is_about_machines(event: Event) -> bool:
    """Returns whether the event is about a Machine or an owner of Machines."""
    return any((event.group, event.kind) == (resource.group, resource.kind) for resource in MACHINES)


def read(clients: Clients, cluster: Object, *, verify: bool) -> Descendants:
    """Returns the Machines of a Cluster and their owners. A kind that is not served has none. Raises `ApiError`.

    Whether a kind is served is taken from the cached discovery, so that a management cluster without Machines costs no
    request. With `verify` the kinds are loaded again if one is missing.
    """
    discovery = clients.discovery
    missing = [kind for kind in MACHINES if discovery.known(kind.group, kind.kind) is None] if verify else []
    for kind in missing[:1]:
        discovery.preferred(kind.group, kind.kind)
    return {resource: tuple(_of_kind(clients, resource, cluster)) for resource in MACHINES}


def _of_kind(clients: Clients, resource: Resource, cluster: Object) -> Iterator[Object]:
    if clients.discovery.known(resource.group, resource.kind) is None:
        return
    try:
        yield from clients.management.list(resource, key_of(cluster).namespace, selector=selector(cluster))
    except NotServed:
        clients.discovery.invalidate()  # the kind is no longer served
        raise


def read_all(clients: Clients, cluster: Object) -> Descendants:
    """Returns the objects of all kinds with the Cluster's label, or owned by it.

    Raises `ApiError`, even if a kind is defined but not served, because nothing may be left when the Cluster is
    deleted.
    """
    found = {resource: tuple(_of_defined_kind(clients, resource, cluster)) for resource in DESCENDANTS}
    return {HELM_RELEASE_PROXY: cluster_deletion.read(clients, cluster), **found}


def _of_defined_kind(clients: Clients, resource: Resource, cluster: Object) -> Iterator[Object]:
    label = "" if resource == CLUSTER_ADDON else selector(cluster)
    for obj in list_defined(clients.management, resource, key_of(cluster).namespace, selector=label):
        if label or owned_by(obj, cluster):
            yield obj


def selector(cluster: Object) -> str:
    """Returns the label selector of the objects that belong to the Cluster."""
    return f"{CLUSTER_NAME_LABEL}={key_of(cluster).name}"


def served_as(resource: Resource, obj: Object) -> Resource:
    """Returns the resource in the version in which the object was read."""
    return replace(resource, version=_version(obj))


def machines(descendants: Descendants, *, control_plane: bool) -> list[Object]:
    """Returns the Machines of the control plane, or of the workers."""
    return [
        machine
        for machine in descendants.get(MACHINE, ())
        if (CONTROL_PLANE_LABEL in dig(machine, "metadata.labels", {})) == control_plane
    ]


def is_of_pool(machine: Object) -> bool:
    """Returns whether a MachinePool owns the Machine."""
    return POOL_LABEL in dig(machine, "metadata.labels", {})


def _version(obj: Object) -> str:
    return split_api_version(obj["apiVersion"])[1]
