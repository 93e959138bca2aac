"""Clusters on infrastructure and a control plane that exist already, as providers of hosted control planes make them.

The workload cluster is a real API server. The kinds fulfil Cluster API's contracts v1beta2; the test plays their
controllers, which have nothing to do but to report.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shared.api.resources import SECRET
from shared.kube import Client, Key, Object, Resource, deleting, dig, key_of
from shared.kube.crds import install_definitions
from tests.support import objects

INFRASTRUCTURE, CONTROL_PLANE = "infrastructure.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"
KINDS = CLUSTER, CLUSTER_TEMPLATE, PLANE, PLANE_TEMPLATE = tuple(
    Resource(group, "v1beta2", kind, f"{kind.lower()}s")
    for group, kind in (
        (INFRASTRUCTURE, "ExternalCluster"),
        (INFRASTRUCTURE, "ExternalClusterTemplate"),
        (CONTROL_PLANE, "ExternalControlPlane"),
        (CONTROL_PLANE, "ExternalControlPlaneTemplate"),
    )
)


def install(client: Client) -> None:
    """Installs the kinds."""
    install_definitions(client, [_definition(resource) for resource in KINDS], manager="user")


def _definition(resource: Resource) -> Object:
    version = {
        "name": "v1beta2",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            "labels": {"cluster.x-k8s.io/v1beta2": "v1beta2", "clusterctl.cluster.x-k8s.io": ""},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"kind": resource.kind, "plural": resource.plural},
            "versions": [version],
        },
    }


def class_objects(name: str, namespace: str) -> list[Object]:
    """Returns a ClusterClass with its templates."""

    def template(resource: Resource) -> Object:
        return objects.manifest(resource, name, namespace, spec={"template": {"spec": {}}})

    def reference(resource: Resource) -> Object:
        return {"templateRef": {"apiVersion": resource.api_version, "kind": resource.kind, "name": name}}

    spec = {"infrastructure": reference(CLUSTER_TEMPLATE), "controlPlane": reference(PLANE_TEMPLATE)}
    metadata = {"name": name, "namespace": namespace}
    cluster_class = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "ClusterClass",
        "metadata": metadata,
        "spec": spec,
    }
    return [template(CLUSTER_TEMPLATE), template(PLANE_TEMPLATE), cluster_class]


def reconcile(client: Client, namespace: str, kubeconfig: bytes) -> None:
    """Reports all infrastructure and control planes of a namespace as ready; `kubeconfig` is that of each workload."""
    for plane in _wanted(client, PLANE, namespace):
        name = dig(plane, ("metadata", "labels", "cluster.x-k8s.io/cluster-name"), "")
        key = Key(namespace, f"{name}-kubeconfig")
        if name and client.find(SECRET, key) is None:
            secret = objects.secret(key.name, namespace, value=kubeconfig)
            secret["metadata"]["labels"] = {"cluster.x-k8s.io/cluster-name": name}
            client.create(SECRET, {**secret, "type": "cluster.x-k8s.io/secret"})
        _report(client, PLANE, plane, controlPlaneInitialized=True)
    for cluster in _wanted(client, CLUSTER, namespace):
        if not dig(cluster, "spec.controlPlaneEndpoint"):
            endpoint = {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}
            client.patch(CLUSTER, key_of(cluster), {"spec": endpoint})
        _report(client, CLUSTER, cluster, provisioned=True)


def _wanted(client: Client, resource: Resource, namespace: str) -> Iterator[Object]:
    return (obj for obj in client.list(resource, namespace) if not deleting(obj))


def _report(client: Client, resource: Resource, obj: Object, **initialization: bool) -> None:
    conditions = [
        {"type": type_, "status": status, "reason": "Reported", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for type_, status in (("Available", "True"), ("Ready", "True"), ("RollingOut", "False"))
    ]
    version = dig(obj, "spec.version")
    status: dict[str, Any] = {"initialization": initialization, "conditions": conditions}
    if resource == PLANE:
        status |= {"version": version, "externalManagedControlPlane": True}
    if {name: dig(obj, ("status", name)) for name in status} != status:
        client.patch(resource, key_of(obj), {"status": status}, subresource="status")
