"""`infra/knative`: everything that runs the functions in a cluster with Knative Eventing, as a kustomization."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infra import version
from shared.event import PING
from shared.kube.resources import Object
from shared.settings import NAMESPACE
from shared.triggers import Rule, Triggers, Watch

from . import eventing, network, rbac, workloads
from .files import Document, yaml_text

SWEEPS: dict[str, tuple[str, Object]] = {
    "sweep": ("*/2 * * * *", {}),
    "sweep-cluster-stacks": ("*/5 * * * *", {"kind": "ClusterStack"}),
    "sweep-everything": ("17 * * * *", {"everything": True}),
}
"""Timers: name -> schedule and data."""

_SOURCES = "capi-functions-sources"

_ASYNC = """
Without async-handler the broker answers the source only after every function has, retries included. A source sends
one event at a time, so one slow or failing function would hold up all changes of a kind, until its watch falls behind
and loses events. The price: what is under way is lost if the dispatcher crashes; the sweep makes up for that.

Retries go on for about two minutes, until the next sweep. There is no dead-letter sink, since a lost event is not lost
work; to see such events, set spec.delivery.deadLetterSink in an overlay.
"""
_RESOURCE = """
Whole objects of the kinds that functions look into. All namespaces in one watch per kind. The permission check is not
skipped: a missing right is to be seen in the status, and skipping it would end the adapter whenever a watch ends.
"""
_REFERENCE = """
Only that an object changed and what it is called: how Secrets are watched without their contents travelling.
"""
_SWEEP = (
    "Sources may lose events: the sweep emits events for objects that are not reconciled and, rarely, for all objects."
)
_NETWORK = """
Who may post events to the functions: Knative's brokers, or a forwarder with these labels. Prometheus is where
kube-prometheus has it; one elsewhere takes an overlay. The kubelet's probes are let in by every network plugin.
"""
_SOURCE_ROLE = """
What the adapters watch, Secrets among it if a function watches them: to watch by reference is a matter of what is sent
on; the adapter itself cannot but list and watch the objects.
"""


def files(declared: Mapping[str, Triggers]) -> dict[str, str]:
    """File name -> content, for those of these functions that run in a cluster."""
    declared = {name: triggers for name, triggers in declared.items() if not triggers.local}
    documents: dict[str, Iterable[Document]] = {
        "namespace.yaml": [("", _namespace())],
        "broker.yaml": [(_ASYNC, eventing.broker(NAMESPACE))],
        "sources.yaml": _sources(declared),
        "network.yaml": [(_NETWORK, network.of_functions(NAMESPACE))],
    }
    for function, triggers in declared.items():
        documents[f"function-{workloads.name_of(function)}.yaml"] = _function(function, triggers)
    resources = list(documents)
    documents["kustomization.yaml"] = [("", kustomization(resources))]
    return {name: yaml_text(content) for name, content in documents.items()}


def _namespace() -> Object:
    # The first label makes SinkBindings work also where Knative is set to look at labelled namespaces only. The others
    # hold pods to the strictest of Kubernetes' standards; those of the functions and of Knative's adapters conform.
    labels = {"bindings.knative.dev/include": "true"} | {
        f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def _sources(declared: Mapping[str, Triggers]) -> Iterable[Document]:
    watches = [watch for triggers in declared.values() for watch in triggers.watches]
    read = [Rule(watch.resource.group, (watch.resource.plural,), rbac.READ) for watch in watches]
    yield "", rbac.account(_SOURCES, NAMESPACE)
    yield _SOURCE_ROLE, rbac.cluster_role(_SOURCES, rbac.merged(read))
    yield "", rbac.cluster_role_binding(_SOURCES, _SOURCES, NAMESPACE)
    yield from _api_server_source("resources", _RESOURCE, [w for w in watches if not w.reference], "Resource")
    yield from _api_server_source("references", _REFERENCE, [w for w in watches if w.reference], "Reference")
    if any(subscription.type == PING for triggers in declared.values() for subscription in triggers.subscriptions):
        for name, (schedule, data) in SWEEPS.items():
            yield _SWEEP, eventing.ping_source(name, NAMESPACE, schedule, data)


def _api_server_source(name: str, comment: str, watches: list[Watch], mode: str) -> Iterable[Document]:
    if watches:
        yield comment, eventing.api_server_source(name, NAMESPACE, _SOURCES, watches, mode)


def _function(function: str, triggers: Triggers) -> Iterable[Document]:
    name = workloads.name_of(function)
    role = f"capi-functions-{name}"
    yield "", rbac.account(name, NAMESPACE)
    if allowed := rbac.rules(triggers):
        yield "", rbac.cluster_role(role, allowed)
        yield "", rbac.cluster_role_binding(role, name, NAMESPACE)
    yield "", workloads.deployment(triggers, name, NAMESPACE)
    yield "", workloads.service(name, NAMESPACE)
    for trigger in eventing.triggers_of(triggers, name, NAMESPACE):
        yield "", trigger
    if triggers.emits:
        yield "", eventing.sink_binding(name, NAMESPACE)


def kustomization(resources: list[str]) -> Object:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
        "images": [{"name": workloads.IMAGE, "newName": workloads.IMAGE, "newTag": version.current()}],
    }
