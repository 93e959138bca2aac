"""What a Cluster and the objects that it refers to say, whichever contract (v1beta1 or v1beta2) they were written in.

Accessors over plain objects. A field that is absent, null or of the wrong type reads as unset, because half of what
comes in was written by other programs; only failure domains are strict, since a wrong shape there must be reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.kube.resources import Object, dig

from .conditions import is_true

PAUSED_ANNOTATION = "cluster.x-k8s.io/paused"
CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"
"""On everything that belongs to a Cluster; a Secret without it is not watched."""

OK_TO_DELETE_ANNOTATION = "runtime.cluster.x-k8s.io/ok-to-delete"
"""Set by Cluster API core once all BeforeClusterDelete hooks have let the Cluster go."""

KUBECONFIG_AVAILABLE = "KubeconfigAvailable"
"""The condition that remembers that a Cluster's kubeconfig was found or minted."""

TOPOLOGY_RECONCILED = "TopologyReconciled"
"""The condition that only Cluster API's topology controller writes."""

_Object = Mapping[str, Any]


# -- the Cluster -----------------------------------------------------------------------------------------------


def class_name(cluster: _Object) -> str | None:
    """The name of the ClusterClass; None for a Cluster without topology."""
    return _text(cluster, "spec.topology.classRef.name") or _text(cluster, "spec.topology.class")


def class_namespace(cluster: _Object) -> str:
    """Where the ClusterClass is: beside the Cluster unless it says otherwise."""
    own = _text(cluster, "metadata.namespace") or ""
    return _text(cluster, "spec.topology.classRef.namespace") or _text(cluster, "spec.topology.classNamespace") or own


def infrastructure_ref(cluster: _Object) -> Object | None:
    return _reference(cluster, "spec.infrastructureRef")


def control_plane_ref(cluster: _Object) -> Object | None:
    return _reference(cluster, "spec.controlPlaneRef")


def is_paused(obj: _Object) -> bool:
    """By its spec or by the annotation, whatever the annotation's value; also for objects other than Clusters."""
    annotations = dig(obj, "metadata.annotations")
    return dig(obj, "spec.paused") is True or (isinstance(annotations, Mapping) and PAUSED_ANNOTATION in annotations)


def ok_to_delete(cluster: _Object) -> bool:
    annotations = dig(cluster, "metadata.annotations")
    return isinstance(annotations, Mapping) and OK_TO_DELETE_ANNOTATION in annotations


def deleted_at(obj: _Object) -> datetime | None:
    """When its deletion was asked for, by the API server's clock."""
    return time(obj, "metadata.deletionTimestamp")


def created_at(obj: _Object) -> datetime | None:
    return time(obj, "metadata.creationTimestamp")


def infrastructure_provisioned(cluster: _Object) -> bool:
    return _flag(cluster, "status.initialization.infrastructureProvisioned") or _flag(
        cluster, "status.infrastructureReady"
    )


# -- a Cluster, an infrastructure or a control-plane object ----------------------------------------------------


def wants_kubeconfig(cluster: _Object) -> bool:
    """Whether its kubeconfig is minted here: a control-plane provider makes its own."""
    return not (dig(cluster, "metadata.deletionTimestamp") or is_paused(cluster) or control_plane_ref(cluster))


def lacks_kubeconfig(cluster: _Object) -> bool:
    """Whether a kubeconfig could be minted, and no condition says that it was."""
    conditions = dig(cluster, "status.conditions", [])
    return wants_kubeconfig(cluster) and endpoint(cluster) is not None and not is_true(conditions, KUBECONFIG_AVAILABLE)


def endpoint(obj: _Object) -> tuple[str, int] | None:
    """Host and port of the API server; None until both are there."""
    host, port = _text(obj, "spec.controlPlaneEndpoint.host"), dig(obj, "spec.controlPlaneEndpoint.port")
    valid = isinstance(port, int) and not isinstance(port, bool) and port != 0
    return (host, port) if host and valid else None


def provisioned(infra: _Object) -> bool:
    """An infrastructure object says that it is done."""
    return _flag(infra, "status.initialization.provisioned") or _flag(infra, "status.ready")


def control_plane_initialized(obj: _Object) -> bool:
    """A control-plane object says that its API server can be reached, or a Cluster that it once could.

    v1beta1 has a field on the former and a condition on the latter.
    """
    return (
        _flag(obj, "status.initialization.controlPlaneInitialized")
        or _flag(obj, "status.initialized")
        or is_true(dig(obj, "status.conditions"), "ControlPlaneInitialized")
    )


def failure_domains(infra: _Object) -> list[Object]:
    """Sorted by name, each {name, controlPlane[, attributes]}; raises ValueError for what is neither map nor list.

    v1beta1 has a map of name to {controlPlane, attributes}, v1beta2 a list of {name, controlPlane, attributes}.
    """
    given = dig(infra, "status.failureDomains")
    if given is None:
        return []
    if isinstance(given, Mapping):
        entries = [(name, domain if domain is not None else {}) for name, domain in given.items()]
    elif isinstance(given, list):
        entries = [(domain.get("name") if isinstance(domain, Mapping) else None, domain) for domain in given]
    else:
        raise ValueError(f"status.failureDomains is {_kind(given)}, a map or a list is needed")
    return sorted((_failure_domain(name, domain) for name, domain in entries), key=lambda domain: str(domain["name"]))


def _failure_domain(name: Any, domain: Any) -> Object:
    if not isinstance(domain, Mapping):
        raise ValueError(f"status.failureDomains has {_kind(domain)} where {{controlPlane, attributes}} is needed")
    if not isinstance(name, str) or not name:
        raise ValueError("status.failureDomains has an entry without a name")
    control_plane = domain.get("controlPlane")
    attributes = domain.get("attributes")
    if not isinstance(control_plane, bool | None):
        raise ValueError(f"failure domain {name}: controlPlane is {_kind(control_plane)}, a boolean is needed")
    if not isinstance(attributes, Mapping | None):
        raise ValueError(f"failure domain {name}: attributes is {_kind(attributes)}, a map is needed")
    found: Object = {"name": name, "controlPlane": bool(control_plane)}
    return found | ({"attributes": dict(attributes)} if attributes else {})


def time(obj: _Object, path: str) -> datetime | None:
    """A time as the API server writes it; one that names no time zone reads as unset."""
    try:
        found = datetime.fromisoformat(_text(obj, path) or "")
    except ValueError:
        return None
    return found if found.tzinfo else None


# -- reading -----------------------------------------------------------------------------------------------------


def _text(obj: _Object, path: str) -> str | None:
    value = dig(obj, path)
    return value if isinstance(value, str) and value else None


def _flag(obj: _Object, path: str) -> bool:
    return dig(obj, path) is True


def _reference(obj: _Object, path: str) -> Object | None:
    """A reference with kind and name; without both it refers to nothing."""
    value = dig(obj, path)
    return dict(value) if _text(obj, f"{path}.kind") and _text(obj, f"{path}.name") else None


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
