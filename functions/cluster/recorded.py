"""The state of a Cluster's objects, from the Cluster's status and the object in an event, without a read.

The status describes objects that are ready and have no further facts to copy.
"""

from __future__ import annotations

from shared.api import cluster as cluster_api
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.conditions import get_condition
from shared.api.core import CoreState
from shared.event import Event
from shared.kube import Object, Resource, dig, key_of, owner_reference
from shared.kube.resources import conventional_plural, group_of, split_api_version
from shared.references import LookupResult

from . import counters
from .descendants import is_about_machines
from .machines import AGGREGATES, UNREADABLE
from .observed import Observed
from .references import CONTROL_PLANE, INFRASTRUCTURE, Role

_UNKNOWN = LookupResult("failed", error="not read")
"""The placeholder for an object that was not read. A decision that depends on it requeues the Cluster."""


def recorded(cluster: Object, event: Event, core: CoreState) -> Observed | None:
    """Returns the known state of the Cluster's objects; None if the event shows more than the status can.

    A status that lacks Machines because they could not be read does not count.
    """
    if _is_unread(cluster):
        return None
    infrastructure, control_plane = cluster_api.infrastructure_ref(cluster), cluster_api.control_plane_ref(cluster)
    reporting, has_machines = _shown(control_plane, event), _records_machines(cluster)
    if reporting and (has_machines or counters.of_control_plane(reporting, None)):
        return None
    return Observed(
        cluster,
        _shown(infrastructure, event) or _recorded(cluster, INFRASTRUCTURE, infrastructure),
        reporting or _recorded(cluster, CONTROL_PLANE, control_plane),
        descendants=None if has_machines else {},
        class_gates=None if uses_class_gates(cluster) else (),
        recorded=True,
        ended_wait=event.change == "update",
        core=core,
    )


def uses_class_gates(cluster: Object) -> bool:
    """Returns whether the ClusterClass's availability gates apply: the Cluster has a class, and no gates of its own."""
    return cluster_api.class_name(cluster) is not None and dig(cluster, "spec.availabilityGates") is None


def shows_machines(cluster: Object, event: Event) -> bool:
    """Returns whether the event or the Cluster's status concerns Machines or their owners."""
    return is_about_machines(event) or _records_machines(cluster)


def shows_no_machines(cluster: Object, event: Event) -> bool:
    """Returns whether the status shows that the Cluster has no Machines, and the event concerns none.

    A Machine that is created has an event of its own.
    """
    reasons = _reasons(cluster)
    is_current = dig(cluster, "status.observedGeneration") == dig(cluster, "metadata.generation")
    is_told = all(reasons.get(one.type) == one.none for one in AGGREGATES)
    return is_current and is_told and not shows_machines(cluster, event)


def _records_machines(cluster: Object) -> bool:
    """Returns whether the status concerns Machines or their owners, which must then be read."""
    replicas = dig(cluster, "status.workers") or dig(cluster, "status.controlPlane")
    reasons = _reasons(cluster)
    return bool(replicas) or any(reasons.get(one.type) not in (None, one.none) for one in AGGREGATES)


def _is_unread(cluster: Object) -> bool:
    """Returns whether the Machines, or other inputs of the conditions about them, could not be read."""
    reasons = _reasons(cluster)
    return any(reasons.get(one.type) == UNREADABLE for one in AGGREGATES)


def _reasons(cluster: Object) -> dict[object, object]:
    return {entry.get("type"): entry.get("reason") for entry in dig(cluster, "status.conditions", [])}


def _shown(reference: Object | None, event: Event) -> LookupResult | None:
    """Returns the referenced object if it is the one in the event."""
    about = event.group, event.kind, event.name
    if reference is None or (group_of(reference), reference["kind"], reference["name"]) != about:
        return None
    group, version = split_api_version(event.api_version)
    resource = Resource(group, version, event.kind, conventional_plural(event.kind))
    return LookupResult("present", event.kind, event.object, resource)


def _recorded(cluster: Object, role: Role, reference: Object | None) -> LookupResult:
    """Returns the referenced object from the Cluster's status, once it is ready and has no further facts to copy.

    Until then it is unknown, so an event about another object is a reason to read it.
    """
    if reference is None:
        return LookupResult("unreferenced")
    mirrored = get_condition(dig(cluster, "status.conditions"), role.condition) or {}
    if mirrored.get("status") != "True" or dig(cluster, "status.phase") != "Provisioned":
        return _UNKNOWN
    is_topology = dig(cluster, "spec.topology") is not None
    obj: Object = {
        "apiVersion": reference.get("apiVersion") or f"{reference.get('apiGroup')}/v1",
        "kind": reference["kind"],
        "metadata": {
            "name": reference["name"],
            "labels": {CLUSTER_NAME_LABEL: key_of(cluster).name},
            "ownerReferences": [owner_reference(cluster, controller=is_topology)],
        },
        "status": {
            "initialization": {"provisioned": True, "controlPlaneInitialized": True},
            "failureDomains": dig(cluster, "status.failureDomains"),
            "conditions": [{**mirrored, "type": role.object_condition}],
        },
    }
    return LookupResult("present", reference["kind"], obj)
