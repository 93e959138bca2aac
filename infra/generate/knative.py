"""Generates `infra/manifests/base`: the functions with Knative Eventing, without a source of changes.

`infra/manifests/forwarder` adds the forwarder, and `infra/manifests/sources` Knative's ApiServerSources.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import yaml

from infra import version
from shared import profiles
from shared.event import PING
from shared.kube.resources import Object
from shared.settings import NAMESPACE
from shared.triggers import Triggers

from . import admission, eventing, network, parts, workloads
from .files import Document, kustomization, yaml_text

BASE = "../base"
"""The path of the base in the kustomizations beside it."""

SWEEPS: dict[str, tuple[str, Object]] = {
    "sweep": ("*/2 * * * *", {}),
    "sweep-cluster-stacks": ("*/5 * * * *", {"kind": "ClusterStack"}),
    "sweep-everything": ("17 * * * *", {"everything": True}),
}
"""Schedule and data of each PingSource by name."""

_ASYNC = """
Without async-handler the broker answers the source only after all functions have answered, retries included. A source
sends one event at a time, so one slow or failing function would delay all changes of a kind, until the source's watch
falls behind and loses events. The price: a crash of the dispatcher loses the events in flight; the sweep sends them
again.

Retries take about two minutes, until the next sweep. What then was not handled goes to `dead-letters`, for diagnosis:
a lost event is not lost work.
"""
_SWEEP = (
    "Sources may lose events: the sweep emits events for objects that are not reconciled and, rarely, for all objects."
)
_POLICY = "Only senders of the namespace reach the Broker. Needs the feature authentication-oidc of Knative Eventing."
_NETWORK = """
Knative's brokers and a forwarder with these labels may post events to the functions, and Prometheus may scrape them.
Its namespace and labels are those of kube-prometheus; change others in an overlay. Network plugins allow the kubelet's
probes.
"""


def files(declared: Mapping[str, Triggers]) -> dict[str, str]:
    """Returns content by file name, for the functions that run in a cluster."""
    declared = in_a_cluster(declared)
    documents: dict[str, Iterable[Document]] = {
        "namespace.yaml": [("", namespace())],
        "broker.yaml": [(_ASYNC, eventing.broker())],
        "timers.yaml": [(_SWEEP, source) for source in ping_sources(declared)],
        "admission.yaml": admission.documents(),
        "network.yaml": [(_NETWORK, network.of_functions())],
    }
    for function, triggers in declared.items():
        documents[f"function-{workloads.name_of(function)}.yaml"] = _function(function, triggers)
    resources = list(documents)
    documents["kustomization.yaml"] = [("", kustomization_with_image(resources))]
    return {name: yaml_text(content) for name, content in documents.items()}


def policy_files() -> dict[str, str]:
    """Returns the content of the generated files below `infra/manifests/event-policy`."""
    return {
        "event-policy.yaml": yaml_text([("", eventing.event_policy())]),
        "kustomization.yaml": yaml_text([(_POLICY, kustomization(["event-policy.yaml"]))]),
    }


def in_a_cluster(declared: Mapping[str, Triggers], wanted: Collection[str] = ("all",)) -> dict[str, Triggers]:
    """Returns the functions of the profiles `wanted`, without functions for local runs only."""
    return {
        name: triggers
        for name, triggers in declared.items()
        if not triggers.local and profiles.belongs(triggers.profiles, wanted)
    }


def namespace() -> Object:
    """Returns the namespace of an installation."""
    # The first label is for installations of Knative that bind sinks in labelled namespaces only. The others enforce
    # the strictest Pod Security Standard, to which the pods of the functions and of Knative's adapters conform.
    labels = {"bindings.knative.dev/include": "true"} | {
        f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def ping_sources(declared: Mapping[str, Triggers]) -> list[Object]:
    """Returns the PingSources, if a function subscribes their events."""
    subscribed = (subscription.type for triggers in declared.values() for subscription in triggers.subscriptions)
    if PING not in subscribed:
        return []
    return [eventing.ping_source(name, schedule, data) for name, (schedule, data) in SWEEPS.items()]


def _function(function: str, triggers: Triggers) -> Iterable[Document]:
    for part in (parts.access, parts.server, parts.subscriptions):
        for obj in part(function, triggers):
            yield "", obj


def kustomization_with_image(resources: list[str]) -> Object:
    """Returns a kustomization of these files, with the image in the version of this project."""
    image = {"name": workloads.IMAGE, "newName": workloads.IMAGE, "newTag": version.current()}
    return kustomization(resources, images=[image])


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
