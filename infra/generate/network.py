"""Generates NetworkPolicies: who may send requests to the functions.

They restrict ingress only. Egress goes to API servers, registries and object stores anywhere; policies cannot name
these, since network plugins differ in how they match the address of an API server. The functions themselves refuse
link-local and metadata addresses (`shared.network`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shared.kube.resources import Object

from . import workloads

BROKERS = "knative-eventing"
"""The namespace of Knative Eventing, whose brokers deliver from there."""

FORWARDER = "forwarder"
"""The name in the label of a forwarder that posts events to the functions directly."""

CORE = ("capi-system", {"cluster.x-k8s.io/provider": "cluster-api"})
"""Namespace and labels of Cluster API's core controller, which calls the hooks."""

PROMETHEUS = ("monitoring", {workloads.NAME: "prometheus"})
"""Namespace and labels of Prometheus in kube-prometheus."""

SERVING, GATEWAY = "knative-serving", "kourier-system"
"""The namespaces of Knative Serving's activator and autoscaler, and of its gateway: that of Kourier."""

_PROXY = (8012, 8112, 9090)
"""The ports of queue-proxy, Serving's container in a function's pod: HTTP, HTTPS, and metrics for the autoscaler."""

_NAMESPACE = "kubernetes.io/metadata.name"
_FUNCTIONS = dict([workloads.PART_OF])
"""The labels of all pods that run functions."""


def of_functions(namespace: str) -> Object:
    """Returns the policy of all functions: brokers, forwarders and Prometheus may send requests."""
    forwarder = {"podSelector": {"matchLabels": workloads.labels(FORWARDER)}}
    peers = [pods_of(BROKERS), forwarder, pods_of(*PROMETHEUS)]
    return policy("functions", namespace, _FUNCTIONS, [(peers, workloads.PORT)])


def of_proxies() -> Object:
    """Returns the rule that Knative Services add to the policy of functions: requests go to their proxies."""
    return _rule([pods_of(SERVING), pods_of(GATEWAY)], *_PROXY)


def of_forwarder(namespace: str, port: int) -> Object:
    """Returns the policy of a forwarder that calls the functions: they may send events to it."""
    return policy(FORWARDER, namespace, workloads.labels(FORWARDER), [([_functions()], port)])


def of_prometheus(namespace: str) -> Object:
    """Returns the policy of functions that get their events inside their pod: Prometheus may send requests."""
    return policy("functions", namespace, _FUNCTIONS, [([pods_of(*PROMETHEUS)], workloads.PORT)])


def of_store(name: str, namespace: str, port: int) -> Object:
    """Returns the policy of an object store for trying: functions may send requests."""
    return policy(name, namespace, {workloads.NAME: name}, [([_functions()], port)])


def of_hooks(name: str, namespace: str, port: int) -> Object:
    """Returns the policy of the hooks: Cluster API's core controller and Prometheus may send requests."""
    return policy(name, namespace, workloads.labels(name), [([pods_of(*CORE), pods_of(*PROMETHEUS)], port)])


def pods_of(namespace: str, labels: Mapping[str, str] | None = None) -> Object:
    """Returns a peer: the pods with these labels in a namespace, all of them without labels."""
    peer: Object = {"namespaceSelector": {"matchLabels": {_NAMESPACE: namespace}}}
    return peer | ({"podSelector": {"matchLabels": dict(labels)}} if labels else {})


def policy(name: str, namespace: str, pods: Mapping[str, str], allowed: Iterable[tuple[list[Object], int]]) -> Object:
    """Returns a policy for pods with these labels. `allowed` has the peers that may connect, each with the port."""
    ingress = [_rule(peers, port) for peers, port in allowed]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"podSelector": {"matchLabels": dict(pods)}, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _functions() -> Object:
    """Returns a peer: the pods of all functions in the policy's namespace."""
    return {"podSelector": {"matchLabels": dict(_FUNCTIONS)}}


def _rule(peers: list[Object], *ports: int) -> Object:
    return {"from": peers, "ports": [{"protocol": "TCP", "port": port} for port in ports]}
