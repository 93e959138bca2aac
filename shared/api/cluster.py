"""Accessors for Clusters and the objects that they refer to, for both contracts (v1beta1 and v1beta2).

They work on plain objects. A field that is absent, null or of the wrong type counts as unset, because other programs
write many of these objects. Only failure domains are strict, because a wrong shape there must be reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

from shared.kube.resources import Object, dig

from .conditions import is_true
from .contract import CONTRACTS

NEWEST = CONTRACTS[0]
"""The contract in which status fields have their newest names."""

PAUSED_ANNOTATION = "cluster.x-k8s.io/paused"
PAUSING = ("spec.paused", f"metadata.annotations[{PAUSED_ANNOTATION}]")
"""The fields that pause an object, as `shared.triggers.Watch` names them."""
CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"
"""The label of every object that belongs to a Cluster; Secrets without it are not watched."""
CONTROL_PLANE_LABEL = "cluster.x-k8s.io/control-plane"
"""The label of Machines of a control plane."""

OK_TO_DELETE_ANNOTATION = "runtime.cluster.x-k8s.io/ok-to-delete"
"""Set by Cluster API core once all BeforeClusterDelete hooks allow the deletion."""

KUBECONFIG_AVAILABLE: Final = "KubeconfigAvailable"
"""The condition that records that a Cluster's kubeconfig Secret exists."""

CERTIFICATES_AVAILABLE: Final = "CertificatesAvailable"
"""The condition whose message begins with the record of the Cluster's existing certificates."""

CONTROL_PLANE_INITIALIZED: Final = "ControlPlaneInitialized"

TOPOLOGY_RECONCILED = "TopologyReconciled"
"""The condition that only Cluster API's topology controller writes."""

ROLLING_OUT: Final = "RollingOut"

ClusterCondition = Literal[
    "Available",
    "RemoteConnectionProbe",
    "InfrastructureReady",
    "ControlPlaneInitialized",
    "ControlPlaneAvailable",
    "WorkersAvailable",
    "RollingOut",
    "Remediating",
    "ScalingDown",
    "ScalingUp",
    "ControlPlaneMachinesReady",
    "WorkerMachinesReady",
    "ControlPlaneMachinesUpToDate",
    "WorkerMachinesUpToDate",
    "CertificatesAvailable",
    "KubeconfigAvailable",
    "Paused",
    "Deleting",
]
"""The conditions that functions write, in their order."""

_Object = Mapping[str, Any]


# -- the Cluster -----------------------------------------------------------------------------------------------


def class_name(cluster: _Object) -> str | None:
    """Returns the name of the ClusterClass; None for a Cluster without topology."""
    return _text(cluster, "spec.topology.classRef.name") or _text(cluster, "spec.topology.class")


def class_namespace(cluster: _Object) -> str:
    """Returns the namespace of the ClusterClass: the Cluster's own unless the topology names another."""
    own = _text(cluster, "metadata.namespace") or ""
    return _text(cluster, "spec.topology.classRef.namespace") or _text(cluster, "spec.topology.classNamespace") or own


def topology_changed_at(cluster: _Object) -> datetime | None:
    """Returns when a field manager last changed the spec with the topology; None if the Cluster does not record it."""
    entries: list[Object] = dig(cluster, "metadata.managedFields", [])
    of_topology = (one for one in entries if dig(one, "fieldsV1.f:spec.f:topology") is not None)
    return max((time for one in of_topology if (time := timestamp(one, "time"))), default=None)


def infrastructure_ref(cluster: _Object) -> Object | None:
    """Returns `spec.infrastructureRef`; None without a kind and a name."""
    return _reference(cluster, "spec.infrastructureRef")


def control_plane_ref(cluster: _Object) -> Object | None:
    """Returns `spec.controlPlaneRef`; None without a kind and a name."""
    return _reference(cluster, "spec.controlPlaneRef")


def is_paused(obj: _Object) -> bool:
    """Returns whether the object is paused by `spec.paused` or by the annotation, whatever the annotation's value."""
    annotations = dig(obj, "metadata.annotations")
    return dig(obj, "spec.paused") is True or (isinstance(annotations, Mapping) and PAUSED_ANNOTATION in annotations)


def ok_to_delete(cluster: _Object) -> bool:
    """Returns whether Cluster API core allows the deletion of the Cluster's objects (`OK_TO_DELETE_ANNOTATION`)."""
    annotations = dig(cluster, "metadata.annotations")
    return isinstance(annotations, Mapping) and OK_TO_DELETE_ANNOTATION in annotations


def deleted_at(obj: _Object) -> datetime | None:
    """Returns the deletion timestamp of an object, by the API server's clock."""
    return timestamp(obj, "metadata.deletionTimestamp")


def created_at(obj: _Object) -> datetime | None:
    """Returns the creation timestamp of an object, by the API server's clock."""
    return timestamp(obj, "metadata.creationTimestamp")


def infrastructure_provisioned(cluster: _Object) -> bool:
    """Returns whether the Cluster's status records that its infrastructure is provisioned."""
    return _flag(cluster, "status.initialization.infrastructureProvisioned") or _flag(
        cluster, "status.infrastructureReady"
    )


# -- a Cluster, an infrastructure or a control-plane object ----------------------------------------------------


def endpoint(obj: _Object) -> tuple[str, int] | None:
    """Returns host and port of the API server; None until both are set."""
    host, port = _text(obj, "spec.controlPlaneEndpoint.host"), dig(obj, "spec.controlPlaneEndpoint.port")
    valid = isinstance(port, int) and not isinstance(port, bool) and port != 0
    return (host, port) if host and valid else None


def provisioned(infra: _Object, contract: str = "") -> bool:
    """Returns whether an infrastructure object reports that it is provisioned, in any contract unless one is given."""
    return _flag_of(infra, contract, "status.initialization.provisioned", "status.ready")


def control_plane_initialized(obj: _Object, contract: str = "") -> bool:
    """Returns whether a control-plane object or a Cluster reports that the API server has been reachable.

    v1beta1 has a field for it on the control-plane object and a condition on the Cluster.
    """
    reported = _flag_of(obj, contract, "status.initialization.controlPlaneInitialized", "status.initialized")
    return reported or is_true(dig(obj, "status.conditions"), CONTROL_PLANE_INITIALIZED)


def api_endpoint(infra: _Object) -> tuple[str, int] | None:
    """Returns host and port of the first of `status.apiEndpoints`, which infrastructure objects have in v1alpha2."""
    listed = dig(infra, "status.apiEndpoints")
    first = listed[0] if isinstance(listed, list) and listed else None
    return endpoint({"spec": {"controlPlaneEndpoint": first}})


def conditions(obj: _Object) -> list[Object]:
    """Returns the conditions that an object reports, in the shape of metav1. A reason or message becomes a text.

    From Cluster API 1.9 on, an object of v1beta1 reports the conditions of v1beta2 in `status.v1beta2`.
    """
    newer = dig(obj, "status.v1beta2.conditions")
    found = newer if newer is not None else dig(obj, "status.conditions")
    return [_told(one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def count(obj: _Object, *fields: str) -> int | None:
    """Returns the number in the first of these fields of the status that is set, in v1beta1 or v1beta2."""
    for field in fields:
        for path in (f"status.v1beta2.{field}", f"status.{field}"):
            if (value := _number(dig(obj, path))) is not None:
                return value
    return None


def desired_replicas(obj: _Object) -> int | None:
    """Returns `spec.replicas`."""
    return _number(dig(obj, "spec.replicas"))


def versions(obj: _Object) -> list[Object]:
    """Returns `status.versions`: {version, replicas}; entries of another shape are left out."""
    listed = dig(obj, "status.versions")
    return [
        {"version": version, "replicas": replicas}
        for one in (listed if isinstance(listed, list) else [])
        if (version := _text(one, "version")) and (replicas := _number(dig(one, "replicas", 0))) is not None
    ]


def failure(obj: _Object) -> tuple[str, str]:
    """Returns reason and message of a terminal failure that an object reports (contracts up to v1beta1).

    Both are empty without a failure. v1alpha2 has other names for them.
    """
    reason = _text(obj, "status.failureReason") or _text(obj, "status.errorReason") or ""
    return reason, _text(obj, "status.failureMessage") or _text(obj, "status.errorMessage") or ""


def failure_domains(infra: _Object, contract: str = "") -> list[Object]:
    """Returns the failure domains of an infrastructure object sorted by name: {name, controlPlane[, attributes]}.

    v1beta1 has a map of name to {controlPlane, attributes}, v1beta2 a list of {name, controlPlane, attributes}. Raises
    `ValueError` for any other shape, and for the shape of another contract if a contract is given.
    """
    given = dig(infra, "status.failureDomains")
    if given is None:
        return []
    if contract and isinstance(given, Mapping) == (contract == NEWEST):
        wanted = "a list" if contract == NEWEST else "a map"
        raise ValueError(f"status.failureDomains is {_type(given)}, but must be {wanted} in contract {contract}")
    if isinstance(given, Mapping):
        entries = [(name, domain if domain is not None else {}) for name, domain in given.items()]
    elif isinstance(given, list):
        entries = [(domain.get("name") if isinstance(domain, Mapping) else None, domain) for domain in given]
    else:
        raise ValueError(f"status.failureDomains is {_type(given)}, but must be a map or a list")
    return sorted((_failure_domain(name, domain) for name, domain in entries), key=lambda domain: str(domain["name"]))


def _failure_domain(name: Any, domain: Any) -> Object:
    if not isinstance(domain, Mapping):
        raise ValueError(f"status.failureDomains has {_type(domain)} in place of {{controlPlane, attributes}}")
    if not isinstance(name, str) or not name:
        raise ValueError("status.failureDomains has an entry without a name")
    control_plane = domain.get("controlPlane")
    attributes = domain.get("attributes")
    if not isinstance(control_plane, bool | None):
        raise ValueError(f"failure domain {name}: controlPlane is {_type(control_plane)}, but must be a boolean")
    if not isinstance(attributes, Mapping | None):
        raise ValueError(f"failure domain {name}: attributes is {_type(attributes)}, but must be a map")
    found: Object = {"name": name, "controlPlane": bool(control_plane)}
    return found | ({"attributes": dict(attributes)} if attributes else {})


def timestamp(obj: _Object, path: str) -> datetime | None:
    """Returns the time at a path, None if it is invalid or has no time zone."""
    try:
        found = datetime.fromisoformat(_text(obj, path) or "")
    except ValueError:
        return None
    return found if found.tzinfo else None


# -- reading -----------------------------------------------------------------------------------------------------


def _told(condition: Object) -> Object:
    """Returns the condition with its reason and message as texts."""
    other = {name: condition.get(name) for name in ("reason", "message")}
    return condition | {name: str(value) for name, value in other.items() if not isinstance(value, str | None)}


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(obj: _Object, path: str) -> str | None:
    value = dig(obj, path)
    return value if isinstance(value, str) and value else None


def _flag_of(obj: _Object, contract: str, newest: str, older: str) -> bool:
    """Returns the flag at the path of the contract; without a contract, of either path."""
    paths = {"": (newest, older), NEWEST: (newest,)}.get(contract, (older,))
    return any(_flag(obj, path) for path in paths)


def _flag(obj: _Object, path: str) -> bool:
    return dig(obj, path) is True


def _reference(obj: _Object, path: str) -> Object | None:
    """Returns the reference at a path, None without a kind and a name."""
    value = dig(obj, path)
    return dict(value) if _text(obj, f"{path}.kind") and _text(obj, f"{path}.name") else None


def _type(value: Any) -> str:
    return f"a {type(value).__name__}"
