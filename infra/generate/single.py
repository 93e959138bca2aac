"""Generates `infra/single`: forwarder and all functions in one Deployment, without Knative; one command installs it.

The replicas have the same two containers. One forwarder holds the Lease, and calls the functions in its own pod; the
others stand by. All functions share one ServiceAccount.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from functions import serving
from shared.kube.resources import Object
from shared.settings import INSTALLATION, KUBECONFIGS, NAMESPACE, Group
from shared.triggers import Triggers

from . import forwarder, network, parts, rbac, store, workloads
from .files import Document, yaml_text
from .knative import in_a_cluster, kustomization, namespace

NAME = workloads.SINGLE
INGRESS = 8081
"""The port at which the forwarder receives the events that functions emit."""

_REPLICAS = 2
_THREADS = 16
_MEMORY = "2Gi"

_TWO = "One replica works. The other one watches, and takes over if the first fails."
_RIGHTS = "One account for all: it may do what any of the functions may."


def files(declared: Mapping[str, Triggers]) -> dict[str, str]:
    """Returns the content of the generated files, by path below `infra/single`."""
    pods = deployment(declared)
    documents: dict[str, Iterable[Document]] = {
        "namespace.yaml": [("", namespace())],
        "access.yaml": _access(declared),
        "single.yaml": [
            (_TWO, pods),
            ("", workloads.disruption_budget(pods)),
            ("", service()),
            ("", network.of_prometheus(NAMESPACE)),
        ],
        "store.yaml": store.documents(),
    }
    documents["kustomization.yaml"] = [("", kustomization(["../crds", *documents]))]
    documents["volume/claim.yaml"] = [("", store.claim())]
    return {name: yaml_text(content) for name, content in documents.items()} | {
        "volume/kustomization.yaml": store.component()
    }


def _access(declared: Mapping[str, Triggers]) -> Iterable[Document]:
    yield _RIGHTS, rbac.service_account(NAME, NAMESPACE)
    yield from forwarder.access(in_a_cluster(declared), NAME)
    for function, triggers in in_a_cluster(declared).items():
        for obj in parts.access(function, triggers, account=NAME):
            yield "", obj


def deployment(declared: Mapping[str, Triggers]) -> Object:
    """Returns the Deployment of forwarder and functions."""
    used = {group: None for triggers in in_a_cluster(declared).values() for group in triggers.settings}
    groups: tuple[Group, ...] = tuple(dict.fromkeys((INSTALLATION, KUBECONFIGS, *used)))
    result = workloads.deployment(Triggers(NAME, memory=_MEMORY, settings=groups), NAME, NAMESPACE)
    result["spec"]["replicas"] = _REPLICAS
    template = result["spec"]["template"]
    template["metadata"]["annotations"] = {**workloads.SCRAPED, forwarder.PROFILES: "all"}
    pod = template["spec"]
    [functions] = pod["containers"]
    program, *arguments = serving.command("", f"--bind=0.0.0.0:{workloads.PORT}")
    functions |= {"name": "functions", "command": [program], "args": arguments}
    functions["resources"]["requests"]["memory"] = workloads.MEMORY_AT_WORK
    workloads.set_variables(functions, THREADS=str(_THREADS), K_SINK=f"http://127.0.0.1:{INGRESS}")
    [delivering] = forwarder.deployment(
        f"--functions=http://127.0.0.1:{workloads.PORT}", f"--port={INGRESS}", without(declared)
    )["spec"]["template"]["spec"]["containers"]
    pod["containers"].append(delivering)
    return result


def without(declared: Mapping[str, Triggers]) -> str:
    """Returns the argument of a forwarder that calls functions, which names those that do not run in a cluster."""
    return "--without=" + ",".join(name for name, triggers in declared.items() if triggers.local)


def service() -> Object:
    """Returns the Service, for Prometheus."""
    return workloads.service(NAME, NAMESPACE)
