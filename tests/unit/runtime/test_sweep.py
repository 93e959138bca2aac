"""Which Clusters the sweep sends: those that are not reconciled by their status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.cluster.decide import decide
from functions.cluster.observed import Observed
from functions.cluster.probe import Probe
from functions.cluster.status import FINALIZER
from functions.sweep.function import not_covered, not_reconciled
from functions.sweep.triggers import SWEPT
from shared import profiles
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.conditions import set_condition
from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.kube import Key, Object, dig, key_of, owner_reference
from shared.references import LookupResult
from shared.triggers import Triggers, Watch

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ENDPOINT = {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}
MINTED = {"KubeconfigAvailable": ("True", "Generated", "Valid until 2027-01-01T00:00:00Z for https://127.0.0.1:6443")}
EXPIRING = {"KubeconfigAvailable": ("True", "Generated", "Valid until 2026-01-15T00:00:00Z for https://127.0.0.1:6443")}
MOVED = {"KubeconfigAvailable": ("True", "Generated", "Valid until 2027-01-01T00:00:00Z for https://127.0.0.1:6444")}
WAITING = {"KubeconfigAvailable": ("False", "WaitingForCA")}
PAUSE = {"annotations": {PAUSED_ANNOTATION: ""}}
CONTROL_PLANE = {
    "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "demo"}
}


def cluster(
    spec: Object | None = None,
    *,
    metadata: Object | None = None,
    conditions: dict[str, tuple[str, ...]] | None = None,
    reconciled: bool = True,
    **status: Any,
) -> Object:
    """Returns a Cluster as `cluster` leaves it, with more conditions and other fields of the status."""
    obj: Object = {
        "apiVersion": CLUSTER.api_version,
        "kind": CLUSTER.kind,
        "metadata": {
            "name": "demo",
            "namespace": "default",
            "uid": "u",
            "generation": 1,
            "finalizers": [FINALIZER],
            **(metadata or {}),
        },
        "spec": spec or {},
        "status": {},
    }
    if reconciled:
        obj = reported(obj)
    obj["status"] |= status
    for type_, values in (conditions or {}).items():
        before = dig(obj, "status.conditions", [])
        generation = None if type_ == "KubeconfigAvailable" else 1
        changed = set_condition(before, type_, *values, now=NOW, observed_generation=generation)
        obj["status"]["conditions"] = changed
    return obj


def reported(obj: Object, probe: Probe | None = None) -> Object:
    """Returns the Cluster with the status that `cluster` reports."""
    control_plane = LookupResult("unreferenced")
    if dig(obj, "spec.controlPlaneRef"):
        control_plane = LookupResult("present", "KubeadmControlPlane", initialized(obj))
    found = decide(Observed(obj, control_plane=control_plane, probe=probe), NOW).status or {}
    return {**obj, "status": obj["status"] | {name: value for name, value in found.items() if value is not None}}


def answering(obj: Object) -> Object:
    """Returns the Cluster after its API server has answered."""
    return reported(obj, Probe("succeeded"))


def initialized(obj: Object) -> Object:
    return {
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": {"name": "demo", "ownerReferences": [owner_reference(obj)]},
        "status": {"initialization": {"controlPlaneInitialized": True}},
    }


READY = ENDPOINT | CONTROL_PLANE


@pytest.mark.parametrize(
    ("sent", "obj"),
    [
        (False, cluster()),
        (True, cluster(phase="Provisioning")),
        (True, cluster(reconciled=False)),
        (True, cluster(observedGeneration=0)),
        (True, cluster(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})),
        (True, cluster(ENDPOINT)),
        (True, cluster(ENDPOINT, conditions=WAITING)),
        (True, cluster(ENDPOINT, conditions=MINTED)),
        (False, answering(cluster(ENDPOINT, conditions=MINTED))),
        (True, answering(cluster(ENDPOINT, conditions=EXPIRING))),
        (True, answering(cluster(ENDPOINT, conditions=MOVED))),
        (True, cluster(CONTROL_PLANE)),
        (True, cluster(READY)),
        (False, answering(cluster(READY))),
        (True, cluster(READY, conditions={"InfrastructureReady": ("False", "NotReady")})),
        (True, cluster(READY, conditions={"ControlPlaneAvailable": ("Unknown", "InternalError")})),
        (False, cluster(conditions={"Other": ("False", "Why")})),
        (False, cluster(ENDPOINT, metadata=PAUSE)),
        (True, cluster(ENDPOINT, metadata=PAUSE, reconciled=False)),
    ],
    ids=[
        "reconciled",
        "provisioning",
        "never reconciled",
        "changed after the last reconciliation",
        "deleting",
        "without kubeconfig",
        "waiting for its CA",
        "with kubeconfig, not probed",
        "with kubeconfig",
        "kubeconfig is due for renewal",
        "kubeconfig is for another endpoint",
        "endpoint is unknown",
        "references are ready, not probed",
        "references are ready",
        "infrastructure is not ready",
        "control plane is unknown",
        "condition of another controller",
        "paused",
        "pause not reported",
    ],
)
def test_sweep_sends_clusters_that_are_not_reconciled(sent: bool, obj: Object) -> None:
    assert list(not_reconciled([obj], NOW)) == ([obj] if sent else [])


STACK = {"topology": {"classRef": {"name": "docker-ferrol-1-27-v1"}}}


def addon(release: str = "docker-ferrol-1-27-v1", *, reason: str = "") -> Object:
    """Returns an addon that is applied, or whose ClusterReady is False for this reason."""
    status = [{"type": one, "status": "True"} for one in ("Ready", "HelmChartApplied", "ClusterReady")]
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
        (False, cluster({**STACK, "paused": True}), []),
        (False, cluster({**STACK, "paused": True}), [addon(reason="Paused")]),
        (True, cluster({**STACK, "paused": True}), [addon()]),
    ],
    ids=["no addon", "applied", "earlier class", "no stack", "paused", "pause reported", "pause not reported"],
)
def test_sweep_sends_clusters_whose_addon_is_missing_or_outdated(sent: bool, obj: Object, addons: list[Object]) -> None:
    assert (obj in list(not_reconciled([obj, *addons], NOW))) is sent


ADDONS = tuple(one for one in SWEPT if profiles.belongs(one.profiles, ("addons",)))
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("sent", "obj", "addons", "swept"),
    [
        (False, cluster(STACK), [addon()], ADDONS),
        (True, cluster(STACK), [], ADDONS),
        (True, cluster(STACK, metadata=GOING), [addon()], ADDONS),
        (True, cluster(STACK), [addon()], SWEPT),
    ],
    ids=["with its addon", "without an addon", "deleting", "with functions of Clusters"],
)
def test_sweep_of_everything_leaves_out_what_a_primary_object_covers(
    sent: bool, obj: Object, addons: list[Object], swept: tuple[Triggers, ...]
) -> None:
    """A Cluster and its ClusterAddon started `addon_apply` twice."""
    assert list(not_covered([obj, *addons], swept)) == [*([obj] if sent else []), *addons]


def test_object_that_breaks_a_mapping_keeps_no_other_from_the_sweep() -> None:
    def key(obj: Mapping[str, Any]) -> Key:
        if dig(obj, "metadata.name") == "hostile":
            raise ValueError("a mapping that did not expect this object")
        return key_of(obj)

    fragile = Triggers("fragile", (Watch(CLUSTER, key=key),), is_reconciled=lambda _obj, _event, _now: False)
    hostile, good = (cluster(metadata={"name": name}) for name in ("hostile", "good"))
    assert list(not_reconciled([hostile, good], NOW, [fragile])) == [good]
    assert list(not_covered([hostile, good], [fragile])) == [good]
