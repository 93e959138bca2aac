"""Generates `infra/knative`: a kustomization that runs the functions in a cluster with Knative Eventing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from infra import version
from shared.event import PING
from shared.kube.resources import Object
from shared.settings import NAMESPACE
from shared.triggers import Rule, Triggers, Watch

from . import eventing, network, parts, rbac, workloads
from .files import Document, yaml_text

SWEEPS: dict[str, tuple[str, Object]] = {
    "sweep": ("*/2 * * * *", {}),
    "sweep-cluster-stacks": ("*/5 * * * *", {"kind": "ClusterStack"}),
    "sweep-everything": ("17 * * * *", {"everything": True}),
}
"""Schedule and data of each PingSource by name."""

SOURCES = "capi-functions-sources"
"""The account of the ApiServerSources, and its ClusterRole."""

_ASYNC = """
Without async-handler the broker answers the source only after all functions have answered, retries included. A source
sends one event at a time, so one slow or failing function would delay all changes of a kind, until the source's watch
falls behind and loses events. The price: a crash of the dispatcher loses the events in flight; the sweep sends them
again.

Retries take about two minutes, until the next sweep. What then was not handled goes to `dead-letters`, for diagnosis:
a lost event is not lost work.
"""
_RESOURCE = """
Events with the whole object, for kinds whose content functions read. One watch per kind for all namespaces. The
permission check is not skipped: the status reports a missing right, and skipping ends the adapter at the end of a
watch.
"""
_REFERENCE = """
Events with the reference of the object only: Secrets are watched without their contents in events.
"""
MODES = {"Resource": "resources", "Reference": "references"}
"""The name of the ApiServerSource of each mode."""

_COMMENTS = {"Resource": _RESOURCE, "Reference": _REFERENCE}
_SWEEP = (
    "Sources may lose events: the sweep emits events for objects that are not reconciled and, rarely, for all objects."
)
_NETWORK = """
Knative's brokers and a forwarder with these labels may post events to the functions, and Prometheus may scrape them.
Its namespace and labels are those of kube-prometheus; change others in an overlay. Network plugins allow the kubelet's
probes.
"""
_SOURCE_ROLE = """
The kinds that the adapters watch, including Secrets if a function watches them: an adapter in reference mode still
lists and watches whole objects, and sends references only.
"""


def files(declared: Mapping[str, Triggers]) -> dict[str, str]:
    """Returns content by file name, for the functions that run in a cluster."""
    declared = in_a_cluster(declared)
    documents: dict[str, Iterable[Document]] = {
        "namespace.yaml": [("", namespace())],
        "broker.yaml": [(_ASYNC, eventing.broker(NAMESPACE))],
        "sources.yaml": _sources(declared),
        "network.yaml": [(_NETWORK, network.of_functions(NAMESPACE))],
    }
    for function, triggers in declared.items():
        documents[f"function-{workloads.name_of(function)}.yaml"] = _function(function, triggers)
    resources = list(documents)
    documents["kustomization.yaml"] = [("", kustomization(resources))]
    return {name: yaml_text(content) for name, content in documents.items()}


def in_a_cluster(declared: Mapping[str, Triggers]) -> dict[str, Triggers]:
    """Returns the functions that are not for local runs only."""
    return {name: triggers for name, triggers in declared.items() if not triggers.local}


def namespace() -> Object:
    """Returns the namespace of an installation."""
    # The first label is for installations of Knative that bind sinks in labelled namespaces only. The others enforce
    # the strictest Pod Security Standard, to which the pods of the functions and of Knative's adapters conform.
    labels = {"bindings.knative.dev/include": "true"} | {
        f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def _sources(declared: Mapping[str, Triggers]) -> Iterable[Document]:
    yield "", rbac.service_account(SOURCES, NAMESPACE)
    yield _SOURCE_ROLE, rbac.cluster_role(SOURCES, source_rules(declared))
    yield "", rbac.cluster_role_binding(SOURCES, SOURCES, NAMESPACE)
    for source in api_server_sources(declared):
        yield _COMMENTS[source["spec"]["mode"]], source
    for source in ping_sources(declared):
        yield _SWEEP, source


def ping_sources(declared: Mapping[str, Triggers]) -> list[Object]:
    """Returns the PingSources, if a function subscribes their events."""
    subscribed = (subscription.type for triggers in declared.values() for subscription in triggers.subscriptions)
    if PING not in subscribed:
        return []
    return [eventing.ping_source(name, NAMESPACE, schedule, data) for name, (schedule, data) in SWEEPS.items()]


def source_rules(declared: Mapping[str, Triggers]) -> list[Object]:
    """Returns the PolicyRules to watch what starts these functions."""
    return rbac.policy_rules(rbac.watch_rules(declared.values()))


def api_server_sources(declared: Mapping[str, Triggers]) -> list[Object]:
    """Returns the ApiServerSources of what starts these functions: one of objects, and one of references.

    They lack the kinds that no function names: an adapter ends if a group is not served. `infra.cli.sources` adds them.
    """
    watches = [watch for triggers in declared.values() for watch in triggers.watches]
    return sources_of(watches)


def source_role(watches: Sequence[Watch]) -> Object:
    """Returns the ClusterRole of ApiServerSources of these watches."""
    return rbac.cluster_role(
        SOURCES, rbac.policy_rules(Rule(watch.resource.group, (watch.resource.plural,), rbac.READ) for watch in watches)
    )


def sources_of(watches: Sequence[Watch]) -> list[Object]:
    """Returns the ApiServerSources of these watches."""
    split = {mode: [watch for watch in watches if watch.reference == (mode == "Reference")] for mode in MODES}
    return [
        eventing.api_server_source(name, NAMESPACE, SOURCES, split[mode], mode)
        for mode, name in MODES.items()
        if split[mode]
    ]


def _function(function: str, triggers: Triggers) -> Iterable[Document]:
    for part in (parts.access, parts.server, parts.subscriptions):
        for obj in part(function, triggers):
            yield "", obj


def kustomization(resources: list[str]) -> Object:
    """Returns a kustomization of these files, with the image in the version of this project."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
        "images": [{"name": workloads.IMAGE, "newName": workloads.IMAGE, "newTag": version.current()}],
    }


def removal(target: Object) -> Object:
    """Returns the patch of a kustomization that removes all objects that `target` selects."""
    anything = {"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any"}, "$patch": "delete"}
    return {"target": target, "patch": yaml.safe_dump(anything, sort_keys=False)}


def replacement(target: Object, path: str, value: Any) -> Object:
    """Returns the patch of a kustomization that replaces a value in all objects that `target` selects."""
    return {
        "target": target,
        "patch": yaml.safe_dump([{"op": "replace", "path": path, "value": value}], sort_keys=False),
    }
