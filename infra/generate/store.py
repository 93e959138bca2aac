"""Generates an object store for trying: moto in a pod, whose objects last as long as the pod, or a PersistentVolume.

What functions store are files of releases and components, and dead letters. They fetch the files again when the store
has lost them.
"""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from shared.kube.resources import Object
from shared.settings import NAMESPACE, STORAGE
from shared.triggers import Triggers

from . import network, rbac, workloads
from .files import Document, yaml_text

NAME = "capi-functions-store"
PORT = 9000
SIZE = "1Gi"

_FILES = "/var/lib/capi-functions"
_VOLUME = "objects"
_FOR_TRYING = """
An object store for trying, until a Secret or ConfigMap names another one: functions fetch their files again after its
pod was deleted. Anybody who reaches it can change files.
"""
_KEPT = """
Keeps the objects of the store for trying in a PersistentVolume. Add it to the components of a kustomization that has
infra/single. A patch of the PersistentVolumeClaim can name another size, or a StorageClass.
"""
_SETTINGS = "A Secret of this name takes precedence, key by key: it can name another object store and its keys."


def component() -> str:
    """Returns the kustomization of the component that has a PersistentVolume; its claim is in `claim.yaml`."""
    changed: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"volumes": [claimed() | {"emptyDir": None}]}}},
    }
    content: Object = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "resources": ["claim.yaml"],
        "patches": [{"patch": yaml.safe_dump(changed, sort_keys=False)}],
    }
    return yaml_text([(_KEPT, content)])


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
        "args": ["--host=0.0.0.0", f"--port={PORT}", f"--directory={_FILES}"],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 5},
    }
    del container["livenessProbe"]
    workloads.unset_variables(container, workloads.METRICS_PORT)
    container["volumeMounts"].append({"name": _VOLUME, "mountPath": _FILES})
    template["spec"]["volumes"].append({"name": _VOLUME, "emptyDir": {}})
    template["spec"]["securityContext"]["fsGroup"] = workloads.USER["runAsGroup"]  # may write to the volume
    return result


def claimed() -> Object:
    """Returns the volume that a PersistentVolume is mounted by, in place of the one that ends with the pod."""
    return {"name": _VOLUME, "persistentVolumeClaim": {"claimName": NAME}}


def claim() -> Object:
    """Returns the PersistentVolumeClaim of the store."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {workloads.NAME: NAME}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": SIZE}}},
    }


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
