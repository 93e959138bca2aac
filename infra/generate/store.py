"""Generates the folder in which a pod of a single installation keeps releases, components and dead letters.

It ends with the pod, which costs another download and the dead letters. Pods that share these files need a bucket.
"""

from __future__ import annotations

from shared.buckets import DEFAULT_STORE
from shared.kube.resources import Object

from . import workloads

SIZE = "4Gi"
"""The pod is evicted beyond it; a release has at most 256 MiB, and unused ones are deleted."""

_VOLUME = "store"
_FOLDER = "/var/lib/store"


def keep_in_pod(deployment: Object) -> None:
    """Adds the folder to the first container of a Deployment, which uses it unless a setting names another store."""
    pod = deployment["spec"]["template"]["spec"]
    pod["volumes"].append({"name": _VOLUME, "emptyDir": {"sizeLimit": SIZE}})
    functions = pod["containers"][0]
    functions["volumeMounts"].append({"name": _VOLUME, "mountPath": _FOLDER})
    workloads.set_variables(functions, **{DEFAULT_STORE: f"file://{_FOLDER}/objects"})
