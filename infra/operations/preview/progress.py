"""Determines the progress of core from objects, and simulates the reports of other controllers during an upgrade."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shared.api.cluster import CLUSTER_NAME_LABEL, TOPOLOGY_RECONCILED, is_paused
from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER, MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET
from shared.kube import Key, Object, deleting, dig, key_of

from .snapshot import Kind, kind_of

Id = tuple[str, str, str, str]
"""The group, kind, namespace and name of an object."""
State = Mapping[Id, Object]

DEPLOYMENT_LABEL = "cluster.x-k8s.io/deployment-name"
"""The label of Machines of a MachineDeployment."""
FAILED = ("ReconcileFailed", "ClusterClassNotReconciled")
"""Reasons of `TopologyReconciled` that name an error; all others are waits (Cluster API, condition reasons)."""
_NOT_YET = FAILED[1:]
_CLASS_NOT_YET = "ClusterClass is not successfully reconciled"
"""The message of core before v1.14, with the reason of another failure, until it has looked at a new class."""


def identify(objects: Iterable[Object]) -> dict[Id, Object]:
    """Returns the objects by group, kind, namespace and name."""
    return {(*kind_of(obj), *key_of(obj)): obj for obj in objects}


def of_kind(state: State, kind: Kind, cluster: Key) -> Iterator[Object]:
    """Yields the objects of a kind that belong to a Cluster."""
    for (group, name, namespace, _), obj in state.items():
        labelled = dig(obj, ("metadata", "labels", CLUSTER_NAME_LABEL))
        if (group, name) == kind and (namespace, labelled) == (cluster.namespace, cluster.name):
            yield obj


def fingerprint(state: State) -> str:
    """Returns a text that changes with each object, and with each spec, label, annotation and condition of topology."""
    return json.dumps(
        sorted(
            [
                obj["metadata"]["uid"],
                obj["metadata"].get("generation"),
                dig(obj, "metadata.labels"),
                dig(obj, "metadata.annotations"),
            ]
            for obj in state.values()
        ),
        sort_keys=True,
        default=str,
    )


def cluster_in(state: State, key: Key) -> Object:
    """Returns a Cluster of the state."""
    return state[CLUSTER.group, CLUSTER.kind, key.namespace, key.name]


def topology_condition(cluster: Object) -> Object:
    """Returns the condition `TopologyReconciled` about the Cluster's present generation; empty without one."""
    found = get_condition(dig(cluster, "status.conditions"), TOPOLOGY_RECONCILED) or {}
    return dict(found) if found.get("observedGeneration") == cluster["metadata"]["generation"] else {}


def topology_message(state: State, key: Key) -> str:
    """Returns what core last reported about the topology of a Cluster; empty without a report."""
    found = get_condition(dig(cluster_in(state, key), "status.conditions"), TOPOLOGY_RECONCILED) or {}
    return str(found.get("message") or found.get("reason") or "")


def is_reconciled(state: State, key: Key) -> bool:
    """Returns whether core has reconciled the topology of a Cluster, and its MachineDeployments and MachineSets."""
    cluster = cluster_in(state, key)
    condition = topology_condition(cluster)
    if not condition or condition.get("reason") in _NOT_YET or str(condition.get("message")).startswith(_CLASS_NOT_YET):
        return False
    if not dig(cluster, "spec.controlPlaneRef") and condition.get("reason") not in FAILED:
        return False  # a new Cluster, for which core has created nothing yet
    return all(
        dig(obj, "status.observedGeneration") == obj["metadata"]["generation"]
        for resource in (MACHINE_DEPLOYMENT, MACHINE_SET)
        for obj in of_kind(state, (resource.group, resource.kind), key)
        if not (deleting(obj) or is_paused(obj))
    )


def referenced(state: State, obj: Object, reference: Mapping[str, Any]) -> Object | None:
    """Returns the object of the state that a reference of another object in its namespace names."""
    group = reference.get("apiGroup") or kind_of(reference)[0]
    return state.get((group, reference.get("kind", ""), key_of(obj).namespace, reference.get("name", "")))


def control_plane(state: State, key: Key) -> Object | None:
    """Returns the control plane of a Cluster; None without one."""
    cluster = cluster_in(state, key)
    return referenced(state, cluster, dig(cluster, "spec.controlPlaneRef", {}))


def played_control_plane(state: State, key: Key) -> Iterator[tuple[Object, Object]]:
    """Yields the control plane and the patch of its status, if the status does not match the spec."""
    plane = control_plane(state, key)
    if plane is None:
        return
    version, generation = dig(plane, "spec.version"), plane["metadata"]["generation"]
    status: Object = {}
    if version and dig(plane, "status.version") not in (None, version):
        status["version"] = version
    versions = dig(plane, "status.versions", [])
    if versions and any(one.get("version") != version for one in versions):
        status["versions"] = [{**versions[0], "version": version}]
    if status:
        if dig(plane, "status.observedGeneration") is not None:
            status["observedGeneration"] = generation
        yield plane, status


def outdated_machines(state: State, key: Key) -> Iterator[tuple[Object, str]]:
    """Yields each Machine whose version differs from the version of its MachineDeployment, and the latter version."""
    kind = (MACHINE_DEPLOYMENT.group, MACHINE_DEPLOYMENT.kind)
    versions = {key_of(obj).name: dig(obj, "spec.template.spec.version") for obj in of_kind(state, kind, key)}
    for machine in of_kind(state, (MACHINE.group, MACHINE.kind), key):
        version = versions.get(dig(machine, ("metadata", "labels", DEPLOYMENT_LABEL), ""))
        if version and dig(machine, "spec.version") != version:
            yield machine, version


def pool_nodes(state: State, key: Key) -> Iterator[tuple[Key, str]]:
    """Yields each Node of the Cluster's MachinePools, and the version of its pool."""
    for pool in of_kind(state, (MACHINE_POOL.group, MACHINE_POOL.kind), key):
        for reference in dig(pool, "status.nodeRefs", []):
            yield Key("", reference["name"]), dig(pool, "spec.template.spec.version", "")
