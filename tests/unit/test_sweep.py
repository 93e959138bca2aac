"""Which Clusters the sweep sends: those that are not reconciled by their status."""

from __future__ import annotations

from typing import Any

import pytest

from functions.cluster.scope import FINALIZER
from functions.sweep.function import not_reconciled
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER, CLUSTER_ADDON
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


STACK = {"topology": {"classRef": {"name": "docker-ferrol-1-27-v1"}}}


def addon(release: str = "docker-ferrol-1-27-v1", *, reason: str = "") -> Object:
    """Returns an addon that is applied, or whose ClusterReady is False for this reason."""
    status = conditions(Ready="True", HelmChartApplied="True", ClusterReady="True")
    if reason:
        status[-1] = {"type": "ClusterReady", "status": "False", "reason": reason}
    return {
        "apiVersion": CLUSTER_ADDON.api_version,
        "kind": CLUSTER_ADDON.kind,
        "metadata": {"name": "cluster-addon-demo", "namespace": "default", "finalizers": [ADDON_FINALIZER]},
        "spec": {"clusterRef": {"name": "demo"}, "clusterStack": release, "hook": ""},
        "status": {"ready": True, "release": release, "conditions": status},
    }


@pytest.mark.parametrize(
    ("sent", "obj", "addons"),
    [
        (True, cluster(STACK), []),
        (False, cluster(STACK), [addon()]),
        (True, cluster(STACK), [addon("docker-ferrol-1-27-v0")]),
        (False, cluster({"topology": {"classRef": {"name": "quick-start"}}}), []),
        (False, cluster({**STACK, "paused": True}, conditions=PAUSED), []),
        (False, cluster({**STACK, "paused": True}, conditions=PAUSED), [addon(reason="Paused")]),
        (True, cluster({**STACK, "paused": True}, conditions=PAUSED), [addon()]),
    ],
    ids=["no addon", "applied", "earlier class", "no stack", "paused", "pause reported", "pause not reported"],
)
def test_sweep_sends_clusters_whose_addon_is_missing_or_outdated(sent: bool, obj: Object, addons: list[Object]) -> None:
    assert (obj in list(not_reconciled([obj, *addons]))) is sent
