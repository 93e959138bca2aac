"""Reads the inputs of a decision about one Cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from shared.api import cluster as cluster_api
from shared.api.cluster import CLUSTER_NAME_LABEL, control_plane_ref, infrastructure_ref
from shared.api.core import CoreState, core_state
from shared.api.resources import CLUSTER_ADDON, MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET, SECRET
from shared.clients import Clients, LookupResult
from shared.kube import ApiError, Object, Resource, deleting, owned_by
from shared.kube.crds import list_defined
from shared.runtime import Request

DESCENDANTS = (CLUSTER_ADDON, MACHINE_POOL, MACHINE_DEPLOYMENT, MACHINE_SET, MACHINE)
"""The kinds of objects that belong to a Cluster, in the order of their deletion."""

_UNREFERENCED = LookupResult("unreferenced")


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one Cluster."""

    cluster: Object | None
    infrastructure: LookupResult = _UNREFERENCED
    control_plane: LookupResult = _UNREFERENCED
    descendants: dict[Resource, tuple[Object, ...]] = field(default_factory=dict)
    """The objects of the kinds in `DESCENDANTS`; only read while the Cluster is being deleted."""
    secrets: tuple[Object, ...] = ()
    """The Secrets that the Cluster owns; only read while it is being deleted."""
    failure: str = ""
    """Why the descendants could not be listed."""
    core: CoreState = "none"
    """Whether Cluster API core manages the Cluster, see `core_state`. If so, nothing else is read until core allows
    the deletion."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the objects that the Cluster refers to; during its deletion also its descendants and Secrets."""
    key, cluster = request.key, request.primary
    if cluster is None:
        return Observed(None)
    manager = core_state(cluster, datetime.now(UTC))
    if manager in ("live", "late") and not (deleting(cluster) and cluster_api.ok_to_delete(cluster)):
        return Observed(cluster, core=manager)
    being_deleted = deleting(cluster)
    infrastructure = clients.get_reference(
        infrastructure_ref(cluster), key.namespace, undefined_is_absent=being_deleted
    )
    control_plane = clients.get_reference(control_plane_ref(cluster), key.namespace, undefined_is_absent=being_deleted)
    observed = Observed(cluster, infrastructure, control_plane, core=manager)
    if not being_deleted:
        return observed
    try:
        descendants = {resource: _descendants(clients, resource, cluster) for resource in DESCENDANTS}
        secrets = tuple(clients.management.list(SECRET, key.namespace, selector=f"{CLUSTER_NAME_LABEL}={key.name}"))
    except ApiError as error:
        return Observed(cluster, infrastructure, control_plane, failure=str(error), core=manager)
    own = tuple(secret for secret in secrets if owned_by(secret, cluster))
    return Observed(cluster, infrastructure, control_plane, descendants, own, core=manager)


def _descendants(clients: Clients, resource: Resource, cluster: Object) -> tuple[Object, ...]:
    """Returns the objects with the Cluster's label, or owned by it. Raises `ApiError`, also if a kind is not served."""
    namespace, name = cluster["metadata"]["namespace"], cluster["metadata"]["name"]
    selector = "" if resource == CLUSTER_ADDON else f"{CLUSTER_NAME_LABEL}={name}"
    found = list_defined(clients.management, resource, namespace, selector=selector)
    return tuple(obj for obj in found if selector or owned_by(obj, cluster))
