"""Which Clusters the sweep sends: those that are not reconciled by their status."""

from __future__ import annotations

from typing import Any

import pytest

from functions.cluster.scope import FINALIZER
from functions.sweep.function import not_reconciled
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.resources import CLUSTER
from shared.kube import Object

ENDPOINT = {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}
READY = [{"type": "InfrastructureReady", "status": "True"}]
MINTED = [*READY, {"type": "KubeconfigAvailable", "status": "True"}]
WAITING = [*READY, {"type": "KubeconfigAvailable", "status": "False", "reason": "WaitingForCA"}]
PAUSED = [{"type": "Paused", "status": "True"}]
CONTROL_PLANE = {
    "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "demo"}
}


METADATA = {"name": "demo", "namespace": "default", "generation": 1, "finalizers": [FINALIZER]}


def conditions(**statuses: str) -> list[Object]:
    return [{"type": type_, "status": status} for type_, status in statuses.items()]


def cluster(spec: Object | None = None, *, metadata: Object | None = None, **status: Any) -> Object:
    return {
        "apiVersion": CLUSTER.api_version,
        "kind": CLUSTER.kind,
        "metadata": {
            "name": "demo",
            "namespace": "default",
            "generation": 1,
            "finalizers": ["cluster.cluster.x-k8s.io"],
            **(metadata or {}),
        },
        "spec": spec or {},
        "status": {"phase": "Provisioned", "observedGeneration": 1, "conditions": READY, **status},
    }


@pytest.mark.parametrize(
    ("sent", "obj"),
    [
        (False, cluster()),
        (True, cluster(phase="Provisioning")),
        (True, cluster(phase=None)),
        (True, cluster(observedGeneration=0)),
        (True, cluster(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})),
        (True, cluster(ENDPOINT)),
        (True, cluster(ENDPOINT, conditions=WAITING)),
        (False, cluster(ENDPOINT, conditions=MINTED)),
        (True, cluster(ENDPOINT | CONTROL_PLANE)),
        (
            False,
            cluster(CONTROL_PLANE, conditions=conditions(InfrastructureReady="True", ControlPlaneAvailable="True")),
        ),
        (True, cluster(conditions=conditions(InfrastructureReady="False"))),
        (
            True,
            cluster(CONTROL_PLANE, conditions=conditions(InfrastructureReady="True", ControlPlaneAvailable="Unknown")),
        ),
        (False, cluster(conditions=[*READY, *conditions(Other="False")])),
        (False, cluster(ENDPOINT, metadata={"annotations": {PAUSED_ANNOTATION: ""}}, conditions=PAUSED)),
        (True, cluster(ENDPOINT, metadata={"annotations": {PAUSED_ANNOTATION: ""}})),
    ],
    ids=[
        "provisioned",
        "provisioning",
        "never reconciled",
        "changed after the last reconciliation",
        "deleting",
        "without kubeconfig",
        "waiting for its CA",
        "with kubeconfig",
        "control plane not looked at",
        "references are ready",
        "infrastructure is not ready",
        "control plane is unknown",
        "condition of another controller",
        "paused",
        "pause not reported",
    ],
)
def test_sweep_sends_clusters_that_are_not_reconciled(sent: bool, obj: Object) -> None:
    assert list(not_reconciled([obj])) == ([obj] if sent else [])
