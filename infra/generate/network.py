"""Generates NetworkPolicies: who may send requests to the functions.

They restrict ingress. Egress goes to API servers, registries and object stores anywhere. Policies cannot name these,
because network plugins match the address of an API server differently. So a policy for egress is an option, and
restricts ports. The functions themselves refuse link-local and metadata addresses (`shared.network`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shared.kube.resources import Object

from . import workloads
from .files import in_namespace

BROKERS = "knative-eventing"
"""The namespace of Knative Eventing, whose brokers deliver from there."""

FORWARDER = "forwarder"
"""The name in the label of a forwarder that posts events to the functions directly."""

CORE = ("capi-system", {"cluster.x-k8s.io/provider": "cluster-api"})
"""Namespace and labels of Cluster API's core controller, which calls the hooks."""

PROMETHEUS = ("monitoring", {workloads.NAME: "prometheus"})
"""Namespace and labels of Prometheus in kube-prometheus."""

SERVING, GATEWAY = "knative-serving", "kourier-system"
"""The namespaces of Knative Serving's activator and autoscaler, and of its gateway Kourier."""

_PROXY = (8012, 8112, 9090)
"""The ports of queue-proxy, Serving's container in a function's pod: HTTP, HTTPS, and metrics for the autoscaler."""

_NAMESPACE = "kubernetes.io/metadata.name"
_FUNCTIONS = dict([workloads.PART_OF])
"""The labels of all pods that run functions."""


EGRESS = (443, 6443)
"""The ports that `egress` opens: of HTTPS and of API servers."""


def of_functions() -> Object:
    """Returns the policy of all functions: brokers, forwarders and Prometheus may send requests."""
    forwarder = {"podSelector": {"matchLabels": workloads.labels(FORWARDER)}}
    peers = [pods_of(BROKERS), forwarder]
    return policy("functions", _FUNCTIONS, [(peers, [workloads.PORT]), _SCRAPED])


def of_proxies() -> list[Object]:
    """Returns the rules that Knative Services add to the policy of functions.

    Requests go to their proxies. Prometheus reads the metrics at the functions' own port, because the proxies occupy
    the usual port of metrics.
    """
    return [_rule([pods_of(SERVING), pods_of(GATEWAY)], _PROXY), _rule([pods_of(*PROMETHEUS)], [workloads.PORT])]


def of_forwarder(port: int) -> Object:
    """Returns the policy of a forwarder that calls the functions, and to which they may send events."""
    functions: Object = {"podSelector": {"matchLabels": dict(_FUNCTIONS)}}
    return policy(FORWARDER, workloads.labels(FORWARDER), [([functions], [port])])


def of_prometheus() -> Object:
    """Returns the policy of functions that get their events inside their pod: only Prometheus may send requests."""
    return policy("functions", _FUNCTIONS, [_SCRAPED])


def of_hooks(name: str, port: int) -> Object:
    """Returns the policy of the hooks: Cluster API's core controller may call them, Prometheus reads the metrics."""
    return policy(name, workloads.labels(name), [([pods_of(*CORE)], [port]), _SCRAPED])


def pods_of(namespace: str, labels: Mapping[str, str] | None = None) -> Object:
    """Returns a peer: the pods with these labels in a namespace, all of them without labels."""
    peer: Object = {"namespaceSelector": {"matchLabels": {_NAMESPACE: namespace}}}
    return peer | ({"podSelector": {"matchLabels": dict(labels)}} if labels else {})


def policy(name: str, pods: Mapping[str, str], allowed: Iterable[tuple[list[Object], Sequence[int]]]) -> Object:
    """Returns a policy for pods with these labels. `allowed` has the peers that may connect, each with its ports."""
    ingress = [_rule(peers, ports) for peers, ports in allowed]
    spec = {"podSelector": {"matchLabels": dict(pods)}, "policyTypes": ["Ingress"], "ingress": ingress}
    return in_namespace("networking.k8s.io/v1", "NetworkPolicy", name, spec)


def egress() -> Object:
    """Returns the policy, an option of the chart, for connections of pods: to names, pods beside them, and `EGRESS`.

    It names ports and no addresses, because API servers, registries and object stores can be anywhere.
    """
    names = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    open_ports = [{"protocol": "TCP", "port": port} for port in EGRESS]
    beside: list[Object] = [{"podSelector": {}}, pods_of(BROKERS)]
    rules = [{"ports": names}, {"to": beside}, {"ports": open_ports}]
    spec = {"podSelector": {"matchLabels": dict(_FUNCTIONS)}, "policyTypes": ["Egress"], "egress": rules}
    return in_namespace("networking.k8s.io/v1", "NetworkPolicy", "egress", spec)


def _rule(peers: list[Object], ports: Sequence[int]) -> Object:
    return {"from": peers, "ports": [{"protocol": "TCP", "port": port} for port in ports]}


_SCRAPED = ([pods_of(*PROMETHEUS)], [workloads.FORWARDER, workloads.METRICS])
"""The peers and ports of metrics."""
