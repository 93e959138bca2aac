"""How a function runs in a cluster: a Deployment of the one image and a Service in front of it.

Plain objects rather than Knative Serving, so that Eventing is all that has to be there; either can be the subscriber
of a Trigger.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.kube.resources import Object
from shared.settings import FOLDER, Group
from shared.triggers import Triggers

PORT = 8080
IMAGE = "capi-functions"
NAME = "app.kubernetes.io/name"
PART_OF = ("app.kubernetes.io/part-of", "capi-functions")
"""The label of everything that runs functions."""

SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": str(PORT), "prometheus.io/path": "/metrics"}
"""What a Prometheus that goes by annotations looks for."""

CONFIGURATION = "/config"
"""Where the settings of a function are mounted; `shared.components.catalog` looks for clusterctl.yaml there, too."""

TEMPORARY = "/tmp"  # noqa: S108 - a volume of the pod's own
"""The only place that can be written to, and so the home of what wants to write into one: gunicorn for its socket."""

THREADS = 8
"""Requests that one replica works on at once. They mostly wait for other servers, so it has nothing to do with the
number of processors; memory is what limits them. functions-framework would take four for each processor of the node."""

WORKERS = 1
"""Processes. What a process keeps (connections, locks, counts) would be there once for each; replicas scale better."""


def name_of(function: str) -> str:
    """Of its objects."""
    return function.replace("_", "-")


def labels(name: str) -> dict[str, str]:
    return dict([(NAME, name), PART_OF])


def deployment(triggers: Triggers, name: str, namespace: str) -> Object:
    """Any number of replicas may run; one is enough to start with."""
    function = triggers.name
    environment = {"HOME": TEMPORARY, "THREADS": str(THREADS), "WORKERS": str(WORKERS)}
    container: Object = {
        "name": "function",
        "image": IMAGE,
        "command": ["functions-framework"],
        "args": [f"--source=functions/{function}/main.py", f"--target={function}", f"--port={PORT}"],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
        "livenessProbe": liveness("http", "HTTP"),
        "resources": {
            "requests": {"cpu": "10m", "memory": "96Mi"},
            "limits": {"memory": triggers.memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": TEMPORARY}],
    }
    pod: Object = {
        "serviceAccountName": name,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    if triggers.settings:
        environment[FOLDER] = CONFIGURATION
        container["volumeMounts"].append({"name": "settings", "mountPath": CONFIGURATION, "readOnly": True})
        pod["volumes"].append({"name": "settings", "projected": {"sources": _sources(triggers.settings)}})
    container["env"] = [{"name": variable, "value": value} for variable, value in environment.items()]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
        "spec": {
            "selector": {"matchLabels": labels(name)},
            "template": {"metadata": {"labels": labels(name), "annotations": SCRAPED}, "spec": pod},
        },
    }


def _sources(groups: Iterable[Group]) -> list[Object]:
    """A key that is in both is taken from the Secret."""
    return [{kind: {"name": group.name, "optional": True}} for group in groups for kind in ("configMap", "secret")]


def liveness(port: str, scheme: str) -> Object:
    """Ends a process that has no thread left for an answer in two minutes, or a delivery that does not end."""
    get = {"path": "/healthz", "port": port, "scheme": scheme}
    return {"httpGet": get, "periodSeconds": 20, "timeoutSeconds": 10, "failureThreshold": 6}


def service(name: str, namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
        "spec": {"selector": labels(name), "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }
