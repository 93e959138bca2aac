"""Generates `infra/manifests/console`: the console for people who log in, in a pod without any rights.

The pod has no token. It reads the certificate of the API server from the ConfigMap that Kubernetes writes into each
namespace, and finds its namespace beside it, as a pod with a token does. It lacks the labels of functions, so that it
may not send events to functions.
"""

from __future__ import annotations

from collections.abc import Iterable

from infra import allocator
from shared.kube.resources import Object
from shared.settings import NAMESPACE

from . import rbac, workloads
from .files import Document, yaml_text
from .knative import kustomization_with_image

NAME = "capi-functions-console"
_MEMORY, _REQUESTED = "512Mi", "96Mi"
_LABELS = {workloads.NAME: NAME}
_AUTHORITY = "/var/run/secrets/kubernetes.io/serviceaccount"
_CERTIFICATE = {"configMap": {"name": "kube-root-ca.crt"}}
_NAMESPACE = {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}
_POD = """
People log in with tokens of their own. Add --host=NAME for the host name of an Ingress or Gateway with HTTPS;
`kubectl port-forward` needs none.
"""


def files() -> dict[str, str]:
    """Returns content by file name."""
    return {
        "console.yaml": yaml_text(documents()),
        "kustomization.yaml": yaml_text([("", kustomization_with_image(["console.yaml"]))]),
    }


def documents() -> Iterable[Document]:
    """Yields the objects of the console."""
    yield "", {**rbac.service_account(NAME), "automountServiceAccountToken": False}
    yield _POD, _deployment()
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    yield (
        "",
        {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(), "spec": {"selector": _LABELS, "ports": ports}},
    )


def _metadata() -> Object:
    return {"name": NAME, "namespace": NAMESPACE, "labels": _LABELS}


def _deployment() -> Object:
    container: Object = {
        "name": "console",
        "image": workloads.IMAGE,
        "command": ["python", "-m", "infra.cli", "console"],
        "args": ["--login", f"--port={workloads.PORT}"],
        "ports": [{"name": "http", "containerPort": workloads.PORT}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 5},
        "livenessProbe": workloads.liveness("http", "HTTP"),
        "resources": {"requests": {"cpu": "10m", "memory": _REQUESTED}, "limits": {"memory": _MEMORY}},
        "securityContext": dict(workloads.UNPRIVILEGED),
        "env": [{"name": name, "value": value} for name, value in allocator.VARIABLES.items()],
        "volumeMounts": [{"name": "authority", "mountPath": _AUTHORITY, "readOnly": True}],
    }
    pod: Object = {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": False,
        "securityContext": dict(workloads.USER),
        "containers": [container],
        "volumes": [{"name": "authority", "projected": {"sources": [_CERTIFICATE, _NAMESPACE]}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(),
        "spec": {
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": pod},
        },
    }
