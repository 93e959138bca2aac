"""Who may post to the functions, as NetworkPolicies.

Only what comes in is restricted. Functions reach API servers, registries and object stores wherever these are, which a
policy cannot name: how it treats an API server's address differs between network plugins. Addresses that nobody should
be led to are refused by the functions themselves (`shared.network`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.kube.resources import Object

from . import workloads

BROKERS = "knative-eventing"
"""The namespace of Knative Eventing, whose brokers deliver from there."""

FORWARDER = "forwarder"
"""The name in the label of a forwarder that runs beside the functions and calls them itself."""

CORE = ("capi-system", {"cluster.x-k8s.io/provider": "cluster-api"})
"""Namespace and labels of Cluster API's core controller, which calls the hooks."""

PROMETHEUS = ("monitoring", {workloads.NAME: "prometheus"})
"""As kube-prometheus has it."""

_NAMESPACE = "kubernetes.io/metadata.name"


def of_functions(namespace: str) -> Object:
    """For all pods that run functions: brokers and forwarders may post, a Prometheus may scrape."""
    part_of, project = workloads.PART_OF
    forwarder = {"podSelector": {"matchLabels": workloads.labels(FORWARDER)}}
    peers = [pods_of(BROKERS), forwarder, pods_of(*PROMETHEUS)]
    return policy("functions", namespace, {part_of: project}, [(peers, workloads.PORT)])


def of_hooks(name: str, namespace: str, port: int) -> Object:
    return policy(name, namespace, workloads.labels(name), [([pods_of(*CORE), pods_of(*PROMETHEUS)], port)])


def pods_of(namespace: str, labels: Mapping[str, str] | None = None) -> Object:
    """The pods with these labels in a namespace; all of them without."""
    peer: Object = {"namespaceSelector": {"matchLabels": {_NAMESPACE: namespace}}}
    return peer | ({"podSelector": {"matchLabels": dict(labels)}} if labels else {})


def policy(name: str, namespace: str, pods: Mapping[str, str], allowed: Iterable[tuple[list[Object], int]]) -> Object:
    """Lets in to pods with these labels whom `allowed` names, each at its port, and nobody else."""
    ingress: list[dict[str, Any]] = [
        {"from": peers, "ports": [{"protocol": "TCP", "port": port}]} for peers, port in allowed
    ]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"podSelector": {"matchLabels": dict(pods)}, "policyTypes": ["Ingress"], "ingress": ingress},
    }
