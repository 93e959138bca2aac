"""A control plane with controllers: workloads become ready, and deletions complete.

A module of tests has it by a fixture `kubeconfig` of its own, which every other fixture goes by:
`local_control_plane.kubeconfig(plane_with_controllers)`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import local_control_plane
from shared.kube import Object, Resource
from tests.support.planes import running_plane

STATEFUL_SET = Resource("apps", "v1", "StatefulSet", "statefulsets")
JOB = Resource("batch", "v1", "Job", "jobs")

PENDING = {"capi-functions.dev/pod": "pending"}
"""Labels of pods that never become Ready."""


@pytest.fixture(scope="session")
def plane_with_controllers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a running control plane with our CRDs and controllers, for the session."""
    with running_plane(tmp_path_factory.mktemp("controllers") / "management", controllers=True) as folder:
        # The garbage collector discovers kinds at its start, and then every 30 s.
        local_control_plane.stop(folder)
        local_control_plane.start(folder, owner=os.getpid(), progress=print, timeout=120, controllers=True)
        yield folder


def workload(
    resource: Resource, name: str, namespace: str, labels: dict[str, str] | None = None, **spec: object
) -> Object:
    """Returns a workload of pods with one container; `labels` are additional labels of the pods."""
    pod = {"containers": [{"name": "c", "image": "example.com/image:1"}]}
    if resource == JOB:
        template = {"metadata": {"labels": labels or {}}, "spec": {**pod, "restartPolicy": "Never"}}
        spec = {"template": template, **spec}
    else:
        own = {"app": name}
        template = {"metadata": {"labels": own | (labels or {})}, "spec": pod}
        spec = {"selector": {"matchLabels": own}, "template": template, **spec}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
