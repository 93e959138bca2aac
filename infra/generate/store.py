"""Generates an object store for trying: moto in a pod, in memory.

What functions store are files of releases and components. They fetch them again when the store has lost them.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.kube.resources import Object
from shared.settings import NAMESPACE, STORAGE
from shared.triggers import Triggers

from . import network, rbac, workloads
from .files import Document

NAME = "capi-functions-store"
PORT = 9000

_FOR_TRYING = """
An object store in memory, until a Secret or ConfigMap names another one: if it restarts, functions fetch their files
again. Anybody who reaches it can change files.
"""
_SETTINGS = "A Secret of this name takes precedence, key by key: it can name another object store and its keys."


def documents() -> Iterable[Document]:
    """Yields the objects of the store, and the settings that name it."""
    yield _FOR_TRYING, rbac.service_account(NAME, NAMESPACE)
    yield "", deployment()
    yield "", service()
    yield "", network.of_store(NAME, NAMESPACE, PORT)
    yield _SETTINGS, settings()


def deployment() -> Object:
    """Returns the Deployment of the store."""
    result = workloads.deployment(Triggers(NAME, memory="512Mi"), NAME, NAMESPACE)
    result["spec"]["strategy"] = {"type": "Recreate"}
    labels = {workloads.NAME: NAME}  # it is no part of what Prometheus and the policies of functions select
    result["metadata"]["labels"] = labels
    result["spec"]["selector"]["matchLabels"] = labels
    template = result["spec"]["template"]
    template["metadata"] = {"labels": labels}
    template["spec"]["automountServiceAccountToken"] = False
    [container] = template["spec"]["containers"]
    container |= {
        "name": "store",
        "command": ["python", "-m", "infra.object_store"],
        "args": ["--host=0.0.0.0", f"--port={PORT}"],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 5},
    }
    del container["livenessProbe"]
    return result


def service() -> Object:
    """Returns the Service of the store."""
    result = workloads.service(NAME, NAMESPACE)
    result["metadata"]["labels"] = result["spec"]["selector"] = {workloads.NAME: NAME}
    return result


def settings() -> Object:
    """Returns the ConfigMap that names the store."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": STORAGE.name, "namespace": NAMESPACE},
        "data": {
            "S3_ENDPOINT_URL": f"http://{NAME}",
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
        },
    }
