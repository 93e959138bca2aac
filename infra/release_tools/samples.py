"""Sample clusters to render releases for: the objects `.Cluster`, `.ControlPlane` and `.InfraCluster` of templates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.kube import dig
from shared.releases.naming import ReleaseName

from .documents import load

ROOTS = ("Cluster", "ControlPlane", "InfraCluster")

Sample = Mapping[str, Any]
"""The objects that a values template reads; `Cluster` always exists."""


def built_in_samples(name: ReleaseName, kubernetes: str) -> list[Sample]:
    """Returns a cluster with the fields that all clusters have once their control plane is initialized."""
    reference = {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "sample"}
    place = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "SampleCluster", "name": "sample"}
    metadata = {"name": "sample", "namespace": "default", "labels": {}, "annotations": {}}
    endpoint = {"host": "192.0.2.1", "port": 6443}
    spec: dict[str, Any] = {
        "clusterNetwork": {
            "pods": {"cidrBlocks": ["10.244.0.0/16"]},
            "services": {"cidrBlocks": ["10.96.0.0/12"]},
            "serviceDomain": "cluster.local",
        },
        "topology": {
            "classRef": {"name": name.class_name},
            "version": kubernetes,
            "controlPlane": {"replicas": 1},
            "workers": {"machineDeployments": [{"class": "default-worker", "name": "workers", "replicas": 1}]},
            "variables": [],
        },
    }
    cluster = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata, "spec": spec}
    known = {"controlPlaneEndpoint": endpoint, "controlPlaneRef": reference, "infrastructureRef": place}
    control_plane = {
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": metadata,
        "spec": {"replicas": 1, "version": kubernetes},
        "status": {"replicas": 1, "version": kubernetes},
    }
    infra = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "SampleCluster",
        "metadata": metadata,
        "spec": {"controlPlaneEndpoint": endpoint},
        "status": {},
    }
    return [{"Cluster": cluster | {"spec": spec | known}, "ControlPlane": control_plane, "InfraCluster": infra}]


def sample_from_file(path: Path) -> Sample:
    """Returns the Cluster in a file of YAML documents, with the objects it refers to.

    Raises `ValueError` or `OSError`.
    """
    found = load(path)
    cluster = next((document for document in found if document.get("kind") == "Cluster"), None)
    if cluster is None:
        raise ValueError(f"{path}: it has no Cluster")
    if not dig(cluster, "metadata.name"):
        raise ValueError(f"{path}: its Cluster has no metadata.name, which values templates use")
    sample = {"Cluster": cluster}
    for root, field in (("ControlPlane", "controlPlaneRef"), ("InfraCluster", "infrastructureRef")):
        wanted = (dig(cluster, f"spec.{field}.kind"), dig(cluster, f"spec.{field}.name"))
        for document in found:
            if wanted == (document.get("kind"), dig(document, "metadata.name")):
                sample[root] = document
    return sample
