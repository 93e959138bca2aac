"""Which Clusters the sweep sends: those that are not reconciled by their status."""

from __future__ import annotations

from typing import Any

import pytest

from functions.sweep.function import not_reconciled
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.resources import CLUSTER
from shared.kube import Object

ENDPOINT = {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}
MINTED = [{"type": "KubeconfigAvailable", "status": "True"}]
WAITING = [{"type": "KubeconfigAvailable", "status": "False", "reason": "WaitingForCA"}]
CONTROL_PLANE = {
    "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "demo"}
}


def conditions(**statuses: str) -> list[Object]:
    return [{"type": type_, "status": status} for type_, status in statuses.items()]


def cluster(spec: Object | None = None, *, metadata: Object | None = None, **status: Any) -> Object:
    return {
        "apiVersion": CLUSTER.api_version,
        "kind": CLUSTER.kind,
        "metadata": {"name": "demo", "namespace": "default", "generation": 1, **(metadata or {})},
        "spec": spec or {},
        "status": {"phase": "Provisioned", "observedGeneration": 1, **status},
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
        (False, cluster(ENDPOINT | CONTROL_PLANE)),
        (False, cluster(conditions=conditions(InfrastructureReady="True", ControlPlaneAvailable="True"))),
        (True, cluster(conditions=conditions(InfrastructureReady="False"))),
        (True, cluster(conditions=conditions(InfrastructureReady="True", ControlPlaneAvailable="Unknown"))),
        (False, cluster(conditions=conditions(TopologyReconciled="False"))),
        (False, cluster(ENDPOINT, metadata={"annotations": {PAUSED_ANNOTATION: ""}})),
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
        "kubeconfig made by its control plane",
        "references are ready",
        "infrastructure is not ready",
        "control plane is unknown",
        "topology condition of another controller",
        "paused",
    ],
)
def test_sweep_sends_clusters_that_are_not_reconciled(sent: bool, obj: Object) -> None:
    assert list(not_reconciled([obj])) == ([obj] if sent else [])
