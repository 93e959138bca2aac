"""Generates `infra/chart`, a Helm chart: the objects of the kustomizations as data, which its few templates configure.

`objects.yaml` is a template itself, because it names the namespace of the release, and some values. Mode and profile
determine the objects of a release; the tables for both are in the same file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from infra import version
from shared import bounded_yaml, profiles
from shared.api.models import CUSTOM_RESOURCES
from shared.api.provider import KINDS
from shared.kube.resources import Object
from shared.settings import GROUPS, NAMESPACE
from shared.triggers import Triggers

from . import (
    admission,
    console,
    crds,
    eventing,
    forwarder,
    hooks,
    knative,
    network,
    parts,
    rbac,
    serving,
    single,
    sources,
    values,
    workloads,
)
from .files import NOTICE, Document, yaml_text

_REFUSALS = Path(__file__).parents[1] / "manifests/admission/policies.yaml"
_RELEASE = "{{ .Release.Namespace }}"
_CHOSEN = '{{ .Values.profile | replace "-" "," }}'
_PEERS = {
    network.BROKERS: "{{ .Values.networkPolicy.brokers }}",
    network.CORE[0]: "{{ .Values.networkPolicy.core }}",
    network.PROMETHEUS[0]: "{{ .Values.networkPolicy.prometheus }}",
    network.SERVING: "{{ .Values.networkPolicy.serving }}",
    network.GATEWAY: "{{ .Values.networkPolicy.gateway }}",
}
_SECRETS = {group.name: f"{{{{ .Values.secrets.{values.group_key(group)} }}}}" for group in GROUPS if group.secret}


def files(declared: Mapping[str, Triggers]) -> dict[str, str]:
    """Returns the content of the generated files, by path in the chart."""
    return {
        "Chart.yaml": yaml_text([("", _chart())]),
        "values.yaml": f"# {NOTICE}\n{values.values_yaml()}",
        "values.schema.json": json.dumps(values.schema(), indent=2) + "\n",
        "definitions.yaml": yaml_text([("", crds.kept(custom)) for custom in CUSTOM_RESOURCES]),
        "objects.yaml": yaml_text([("", _data(declared))]),
    }


def _chart() -> Object:
    return {
        "apiVersion": "v2",
        "name": "capi-functions",
        "description": "Cluster API lifecycle management as stateless functions, with Knative Eventing or without",
        "type": "application",
        "version": version.current(),
        "appVersion": version.current(),
        "kubeVersion": ">=1.29.0-0",
        "keywords": ["cluster-api", "helm", "knative", "addons", "multi-cluster"],
        "annotations": {  # of Artifact Hub
            "artifacthub.io/category": "integration-delivery",
            "artifacthub.io/license": "Apache-2.0",
            "artifacthub.io/operator": "true",
        },
    }


def _data(declared: Mapping[str, Triggers]) -> Object:
    every = knative.in_a_cluster(declared)
    return {
        "modes": _modes(declared),
        "profiles": {name: _profile(declared, name.split("-")) for name in values.PROFILES},
        "functions": {
            workloads.name_of(name): {
                part.__name__: _in_release(part(name, triggers))
                for part in (parts.access, parts.everywhere, parts.server, parts.subscriptions)
            }
            for name, triggers in every.items()
        },
        "parts": {part.name: _in_release(single.own(part, declared)) for part in single.PARTS},
        "providers": single.PROVIDERS.name,
        "everywhere": _in_release(forwarder.everywhere()),
        "secrets": _in_release(_objects(admission.documents())),
        "providerKinds": [
            {"value": values.provider_key(kind), "kind": kind.kind, "prefix": kind.prefix} for kind in KINDS
        ],
        "refusals": _in_release(bounded_yaml.load_all(_REFUSALS.read_text())),
        "admission": f">={admission.SINCE}",
        "egress": _in_release([network.egress()]),
        "serving": serving.changes()
        | {"service": serving.SERVICE, "ingress": _replaced(network.of_proxies(), "NetworkPolicy")},
        "disruptionBudget": workloads.BUDGET,
        "eventPolicy": _in_release([eventing.event_policy()]),
        "hooks": _in_release(_objects(hooks.documents())),
        "console": _in_release(_objects(console.documents())),
    }


def _modes(declared: Mapping[str, Triggers]) -> Object:
    """Returns for each mode the objects of the installation, and the required parts of each function.

    `watcher` names the rights and sources of a profile, `env` the variables of the servers. The mode `single` has
    `parts` of its own.
    """
    events = [eventing.broker(), *knative.ping_sources(declared)]
    leases = _objects(forwarder.lease_access())
    account = rbac.service_account(network.FORWARDER)
    service = forwarder.service()
    policy = network.of_functions()
    modes: dict[str, tuple[str, list[str], list[Object]]] = {
        "single": ("single", [], [network.of_prometheus()]),
        "direct": ("forwarder", ["access", "server"], [account, *leases, policy, *_calling_forwarder(declared)]),
        "forwarder": (
            "forwarder",
            ["access", "server", "subscriptions"],
            [
                *events,
                *(account, *_objects(forwarder.lease_access(network.FORWARDER, forwarder.READ_TRIGGERS))),
                *(policy, forwarder.deployment(), service),
                eventing.sink_binding(network.FORWARDER),
            ],
        ),
        "sources": (
            "sources",
            ["access", "server", "subscriptions"],
            [
                *events,
                rbac.service_account(sources.SOURCES),
                rbac.cluster_role_binding(sources.SOURCES, sources.SOURCES),
                policy,
            ],
        ),
    }
    return {
        mode: {
            "watcher": watcher,
            "parts": needed,
            "env": {"K_SINK": f"http://{network.FORWARDER}"} if mode == "direct" else {},
            "objects": _in_release(objects),
        }
        for mode, (watcher, needed, objects) in modes.items()
    }


def _calling_forwarder(declared: Mapping[str, Triggers]) -> Iterable[Object]:
    """Yields the forwarder that calls each function at its Service, and receives emitted events.

    It has one replica, also during an upgrade, because a second replica, in standby, would refuse the events that the
    Service sends to it.
    """
    deployment = forwarder.deployment(
        "--functions=http://{function}", "--host=0.0.0.0", f"--port={single.INGRESS}", single.without(declared)
    )
    deployment["spec"] |= {"replicas": 1, "strategy": {"type": "Recreate"}}
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    container["ports"].append({"name": "events", "containerPort": single.INGRESS})
    service = forwarder.service()
    service["spec"]["ports"].append({"name": "events", "port": 80, "targetPort": "events"})
    yield from (deployment, service, network.of_forwarder(single.INGRESS))


def _profile(declared: Mapping[str, Triggers], wanted: list[str]) -> Object:
    chosen = knative.in_a_cluster(declared, wanted)
    return {
        "setting": ",".join(wanted),
        "functions": [workloads.name_of(name) for name in chosen],
        "forwarder": [rbac.cluster_role(forwarder.role_of(), forwarder.rules(chosen))],
        "single": [],
        "parts": {
            part.name: _part(part, declared, part.chosen(wanted)) for part in single.PARTS if part.chosen(wanted)
        },
        "sources": _in_release(
            [
                rbac.cluster_role(sources.SOURCES, sources.rules(chosen)),
                *sources.api_server_sources(chosen),
            ]
        ),
    }


def _part(part: single.Part, declared: Mapping[str, Triggers], wanted: tuple[str, ...]) -> Object:
    """Returns the profiles of a part, its functions except functions of all profiles, and its forwarder's objects."""
    chosen = knative.in_a_cluster(declared, wanted)
    role = rbac.cluster_role(forwarder.role_of(part.lease), forwarder.rules(chosen))
    return {
        "setting": ",".join(wanted),
        "functions": [
            workloads.name_of(name) for name, triggers in chosen.items() if triggers.profiles != profiles.ALWAYS
        ],
        "forwarder": [role],
    }


def _objects(documents: Iterable[Document]) -> list[Object]:
    return [obj for _, obj in documents]


def _in_release(objects: Iterable[Object]) -> list[Object]:
    """Returns the objects in the namespace of the release, with the values of the chart in their places."""
    return [_replaced(deepcopy(obj), obj["kind"]) for obj in objects]


def _replaced(node: Any, kind: str, key: str = "") -> Any:
    if isinstance(node, dict):
        if key == "secret" and node.get("name") in _SECRETS:
            node["name"] = _SECRETS[node["name"]]
        return {name: _replaced(child, kind, name) for name, child in node.items()}
    if isinstance(node, list):
        return [_replaced(child, kind) for child in node]
    if not isinstance(node, str):
        return node
    if kind == "NetworkPolicy" and key.endswith("metadata.name"):
        return _PEERS.get(node, node)
    if key == forwarder.PROFILES:
        return _CHOSEN
    if key == "namespace" and node == NAMESPACE:
        return _RELEASE
    node = node.replace(f"serviceaccount:{NAMESPACE}:", f"serviceaccount:{_RELEASE}:")
    return node.replace(f"{NAMESPACE}/", f"{_RELEASE}/").replace(f".{NAMESPACE}.svc", f".{_RELEASE}.svc")
