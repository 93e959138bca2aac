"""Generates a function's Deployment and Service.

They are plain objects rather than Knative Services, so that Knative Serving need not be installed. A Trigger can
subscribe either; `serving` makes Knative Services of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from functions import serving
from infra import allocator
from shared.kube.resources import Object
from shared.settings import FOLDER, NAMESPACE, Group
from shared.triggers import MEMORY_TO_RENDER, Triggers

PORT = 8080
METRICS = 9091
"""The port of functions at which they serve `/metrics`."""
FORWARDER = 9090
"""The port at which a forwarder serves `/healthz`, `/readyz` and `/metrics`."""
METRICS_PORT = "METRICS_PORT"
"""The variable that names the port of `/metrics`; the first variable of a container, so that patches find it."""
IMAGE = "capi-functions"
NAME = "app.kubernetes.io/name"
PART_OF = ("app.kubernetes.io/part-of", "capi-functions")
"""The label of all pods that run functions."""

SINGLE = "capi-functions"
"""The name of the Deployment of all functions except providers', of its Service and its ServiceAccount."""
SINGLE_PROVIDERS = f"{SINGLE}-providers"
"""The name of the Deployment of the functions of providers, of its Service and its ServiceAccount."""

SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": str(METRICS), "prometheus.io/path": "/metrics"}
"""Annotations for a Prometheus that discovers pods by annotation."""

CONFIGURATION = "/config"
"""The folder that settings are mounted to; `shared.components.catalog` also reads clusterctl.yaml from it."""

TEMPORARY = "/tmp"  # noqa: S108 - a volume of the pod's own
"""The only writable folder; also the home directory."""
TEMPORARY_SIZE = "512Mi"
"""The size of this folder, which only holds the charts that the helm program unpacks, two at a time."""
METRICS_NAME, FORWARDER_NAME = "metrics", "forwarder"
"""The names of the ports of `/metrics`, of functions and of a forwarder."""

THREADS = 8
"""Requests that one replica processes concurrently.

Requests mostly wait for other servers, so memory limits their number, not processors.
"""

MEMORY_IDLE = "96Mi"
"""The requests of pods; most take 46 to 60 MiB."""

MEMORY_AT_WORK = "192Mi"
"""The requests of pods that render; `addon_apply` takes 115 MiB beside the processes that render."""

WORKERS = 1
"""Processes of a replica. Connections, locks and metrics exist once per process; replicas scale better."""

USER: Object = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""The part of the Pod Security Standard `restricted` that a pod can have for its containers."""

UNPRIVILEGED: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
"""The part that only containers can have, and a read-only root file system."""

BUDGET: Object = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"maxUnavailable": 1}}
"""The common fields of all PodDisruptionBudgets."""

READINESS: Object = {"path": "/", "port": "http"}
"""The request of the readiness probe."""


def name_of(function: str) -> str:
    """Returns the name of a function's objects."""
    return function.replace("_", "-")


def labels(name: str) -> dict[str, str]:
    """Returns the labels of a function's pods."""
    return dict([(NAME, name), PART_OF])


def deployment(triggers: Triggers, name: str) -> Object:
    """Returns the Deployment of a function, with one replica; any number may run."""
    program, *arguments = serving.command(triggers.name, f"--bind=0.0.0.0:{PORT}")
    environment = {
        METRICS_PORT: str(METRICS),
        "HOME": TEMPORARY,
        "THREADS": str(THREADS),
        "WORKERS": str(WORKERS),
        **allocator.VARIABLES,
    }
    container: Object = {
        "name": "function",
        "image": IMAGE,
        "command": [program],
        "args": arguments,
        "ports": [{"name": "http", "containerPort": PORT}, {"name": METRICS_NAME, "containerPort": METRICS}],
        "readinessProbe": {"httpGet": dict(READINESS), "periodSeconds": 5},
        "livenessProbe": liveness("http", "HTTP"),
        "resources": {
            "requests": {
                "cpu": "10m",
                "memory": MEMORY_AT_WORK if triggers.memory == MEMORY_TO_RENDER else MEMORY_IDLE,
            },
            "limits": {"memory": triggers.memory},
        },
        "securityContext": dict(UNPRIVILEGED),
        "volumeMounts": [{"name": "tmp", "mountPath": TEMPORARY}],
    }
    pod: Object = {
        "serviceAccountName": name,
        "securityContext": dict(USER),
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": TEMPORARY_SIZE}}],
    }
    if triggers.settings:
        environment[FOLDER] = CONFIGURATION
        container["volumeMounts"].append({"name": "settings", "mountPath": CONFIGURATION, "readOnly": True})
        pod["volumes"].append({"name": "settings", "projected": {"sources": _sources(triggers.settings)}})
    container["env"] = [{"name": variable, "value": value} for variable, value in environment.items()]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels(name)},
        "spec": {
            "selector": {"matchLabels": labels(name)},
            "template": {"metadata": {"labels": labels(name), "annotations": SCRAPED}, "spec": pod},
        },
    }


def disruption_budget(deployment: Object) -> Object:
    """Returns the PodDisruptionBudget of a Deployment with several replicas: one may be missing."""
    return {
        "apiVersion": BUDGET["apiVersion"],
        "kind": BUDGET["kind"],
        "metadata": {field: deployment["metadata"][field] for field in ("name", "namespace", "labels")},
        "spec": {**BUDGET["spec"], "selector": deployment["spec"]["selector"]},
    }


def unset_variables(container: Object, *names: str) -> None:
    """Removes environment variables of a container."""
    container["env"] = [variable for variable in container["env"] if variable["name"] not in names]


def set_variables(container: Object, **values: str) -> None:
    """Sets environment variables of a container."""
    others = [variable for variable in container["env"] if variable["name"] not in values]
    container["env"] = [*others, *({"name": name, "value": value} for name, value in values.items())]


def _sources(groups: Iterable[Group]) -> list[Object]:
    """Returns the sources of the projected volume. The last one wins: the Secret."""
    return [{kind: {"name": group.name, "optional": True}} for group in groups for kind in ("configMap", "secret")]


def liveness(port: str | int, scheme: str) -> Object:
    """Returns the liveness probe, which ends a process with a stuck delivery, or without a free thread for 2 min."""
    get = {"path": "/healthz", "port": port, "scheme": scheme}
    return {"httpGet": get, "periodSeconds": 20, "timeoutSeconds": 10, "failureThreshold": 6}


def metrics_port(name: str) -> Object:
    """Returns the port of a Service for Prometheus, the container port with the same name."""
    return {"name": name, "port": FORWARDER if name == FORWARDER_NAME else METRICS, "targetPort": name}


def service(name: str) -> Object:
    """Returns the Service of a function."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels(name)},
        "spec": {
            "selector": labels(name),
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}, metrics_port(METRICS_NAME)],
        },
    }
