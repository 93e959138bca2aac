"""The document and the text of `describe cluster`."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from infra.cli.terminal.cluster_tree import show
from infra.operations.describe.cluster_objects import ClusterObjects
from infra.operations.describe.conditions import NO_RELEASE
from infra.operations.describe.document import document
from shared.addons.status import ROLLED_BACK
from shared.kube import Object
from shared.references import LookupResult

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
SINCE = "2026-01-01T11:56:48Z"
CLASS = "x-y-1-36-v2"


def cluster(annotations: dict[str, str] | None = None, **status: Any) -> Object:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "demo", "namespace": "ns", "annotations": annotations or {}},
        "spec": {"topology": {"classRef": {"name": CLASS}, "version": "v1.36.3"}},
        "status": status,
    }


def addon(annotations: dict[str, str] | None = None, spec: Object | None = None, **status: Any) -> LookupResult:
    found = {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterAddon",
        "metadata": {"name": "cluster-addon-demo", "namespace": "ns", "annotations": annotations or {}},
        "spec": spec or {},
        "status": status,
    }
    return LookupResult("present", "ClusterAddon", found)


def condition(type_: str, status: str = "False", message: str = "", **more: str) -> Object:
    return {"type": type_, "status": status, "message": message, "lastTransitionTime": SINCE, **more}


def described(objects: ClusterObjects) -> str:
    """Returns the text as it is printed without a terminal."""
    written = io.StringIO()
    show(Console(file=written, soft_wrap=True, highlight=False, width=80), [document(objects, NOW)])
    return written.getvalue()


def test_cluster_without_references_has_a_short_document() -> None:
    bare = cluster()
    del bare["spec"], bare["status"]
    found = document(ClusterObjects(bare), NOW)
    assert found["cluster"] == {
        "kind": "Cluster",
        "namespace": "ns",
        "name": "demo",
        "deleting": False,
        "paused": False,
    }
    assert "addons: none" in described(ClusterObjects(bare))


WAITS: list[tuple[list[Object], Object | None]] = [
    ([], None),
    ([condition("Ready", "True"), condition("ClusterReady", "True")], None),
    (
        [condition("Ready", message="m"), condition("ClusterReady", "True"), condition("ObjectsReady", message="m")],
        {"type": "ObjectsReady", "status": "False", "message": "m", "since": SINCE, "for": "3m12s"},
    ),
    (
        [condition("Ready", message="m")],
        {"type": "Ready", "status": "False", "message": "m", "since": SINCE, "for": "3m12s"},
    ),
    (
        [condition("Ready", message="m"), condition("ClusterAddonConfigValidated", message="m", reason=NO_RELEASE)],
        None,
    ),
    (
        [
            condition("Ready", message="m"),
            condition("HelmChartApplied", message="m", reason=ROLLED_BACK),
        ],
        None,
    ),
]


@pytest.mark.parametrize(("conditions", "expected"), WAITS)
def test_waiting_for_is_the_condition_that_ready_summarises(conditions: list[Object], expected: Object | None) -> None:
    assert (
        document(ClusterObjects(cluster(), addon=addon(conditions=conditions)), NOW)["addon"].get("waitingFor")
        == expected
    )


def entry(name: str, **fields: str) -> Object:
    return {"version": "v1", "kind": "ConfigMap", "namespace": "ns", "name": name, "status": "synced", **fields}


def test_inventory_is_counted_by_state() -> None:
    resources = [
        entry("fine"),
        entry("slow", waiting="0 of 1 replicas available"),
        entry("bad", status="not-synced", error="refused", stage="cni"),
        entry("next", status="not-synced"),
        entry("crd", status="kept", error="others"),
    ]
    found = document(ClusterObjects(cluster(), addon=addon(resources=resources)), NOW)["addon"]["inventory"]
    assert found["total"] == 5
    assert found["counts"] == {"synced": 1, "pending": 1, "failing": 1, "waiting": 1, "kept": 1}
    assert sum(found["counts"].values()) == found["total"]
    assert found["failing"] == [{"object": "ConfigMap ns/bad", "stage": "cni", "why": "refused"}]
    assert found["waiting"] == [{"object": "ConfigMap ns/slow", "why": "0 of 1 replicas available"}]
    assert found["kept"] == [{"object": "ConfigMap ns/crd", "why": "others"}]


def test_text_names_ten_failing_objects_and_counts_the_rest() -> None:
    resources = [entry(f"bad-{number}", error="refused") for number in range(25)]
    text = described(ClusterObjects(cluster(), addon=addon(resources=resources)))
    assert "objects: 25 in all: 25 failing" in text
    assert text.count("refused") == 10
    assert "and 15 more" in text


def test_missing_objects_are_named() -> None:
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "KINDCluster", "name": "demo"}
    referring = cluster()
    referring["spec"] |= {"infrastructureRef": reference}
    objects = ClusterObjects(
        referring,
        infrastructure=LookupResult("absent", "KINDCluster"),
        addon=LookupResult("absent", "ClusterAddon"),
        release=LookupResult("absent", "ClusterStackRelease"),
    )
    found = document(objects, NOW)
    assert found["infrastructure"] == {"kind": "KINDCluster", "namespace": "ns", "name": "demo", "state": "absent"}
    text = described(objects)
    assert "infrastructure: KINDCluster ns/demo does not exist" in text
    assert "addons: ClusterAddon ns/cluster-addon-demo does not exist" in text
    assert "release: x-y-1-36-v2, without a ClusterStackRelease" in text


def test_policy_annotations_are_listed_with_their_origin() -> None:
    prefix = "capi-functions.dev/"
    on_cluster = cluster({prefix + "drift": "report", prefix + "wait": "false", "other": "1"})
    on_addon = addon({prefix + "drift": "repair", prefix + "rollback-from": CLASS})
    found = document(ClusterObjects(on_cluster, addon=on_addon), NOW)
    assert found["policy"] == {
        "annotations": {
            "drift": {"value": "repair", "from": "ClusterAddon"},
            "wait": {"value": "false", "from": "Cluster"},
        }
    }
    assert found["addon"]["rollbackFrom"] == CLASS
    broken = document(ClusterObjects(cluster({prefix + "wait": "perhaps"})), NOW)["policy"]
    assert "it must be one of true, false" in broken["problem"]


def test_text_has_all_sections() -> None:
    infrastructure: Object = {
        "apiVersion": "infrastructure.cluster-k8s.io/v1alpha1",
        "kind": "KINDCluster",
        "metadata": {"name": "demo", "namespace": "ns"},
        "status": {"conditions": [{"timestamp": SINCE, "message": "cluster created"}]},
    }
    event = {
        "involvedObject": {"kind": "ClusterAddon", "name": "cluster-addon-demo"},
        "reason": "AddonsApplied",
        "message": "15 objects written",
        "lastTimestamp": SINCE,
        "count": 2,
    }
    objects = ClusterObjects(
        cluster(phase="Provisioned", conditions=[condition("Ready", "True")]),
        LookupResult("present", "KINDCluster", infrastructure),
        LookupResult("absent", "KubeadmControlPlane"),
        addon(
            spec={"clusterStack": "x-y-1-36-v1", "version": "v1", "hook": "AfterClusterUpgrade"},
            conditions=[
                condition("Ready", reason="R", message="waiting"),
                condition("ObjectsReady", reason="R", message="waiting"),
            ],
            stages=[{"name": "cni", "action": "apply", "phase": "waitingForPostCondition", "since": SINCE}],
            history=[{"clusterStack": "x-y-1-36-v1", "version": "v1", "at": SINCE, "digest": "d"}],
            drift=["ConfigMap ns/a (data.k)"],
            kubernetesVersion="v1.36.3",
        ),
        LookupResult("failed", "ClusterStackRelease", error="forbidden"),
        [event],
    )
    text = described(objects)
    for words in (
        "Cluster ns/demo",
        "phase: Provisioned",
        "KINDCluster ns/demo",
        "cluster created (3m12s ago)",
        "control plane: KubeadmControlPlane does not exist",
        "class of the Cluster: x-y-1-36-v2",
        "class of the applied addons: x-y-1-36-v1",
        "not ready",
        "waiting for 3m12s: waiting",
        "ObjectsReady=False for 3m12s  R",
        "cni (apply): waitingForPostCondition for 3m12s",
        "ConfigMap ns/a (data.k)",
        "x-y-1-36-v1 (addons v1), 3m12s ago",
        "release: ClusterStackRelease ns/x-y-1-36-v2 cannot be read: forbidden",
        "3m12s ago  ClusterAddon cluster-addon-demo  AddonsApplied: 15 objects written (x2)",
    ):
        assert words in text, text
    assert "\x1b" not in text
    assert text.count(": waiting\n") == 1  # conditions that repeat it are shown without the message
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_text_without_a_terminal_is_not_wrapped() -> None:
    long = "word " * 150
    text = described(ClusterObjects(cluster(conditions=[condition("Ready", message=f"{long}end")])))
    assert any(line.endswith("end") and "Ready=False" in line for line in text.splitlines())


HOSTILE = [7, "text", {"type": "Ready"}, [7, None, {"type": 7, "status": ["x"]}, {"message": {"a": 1}}]]


@pytest.mark.parametrize("conditions", HOSTILE)
def test_status_in_another_form_is_tolerated(conditions: Any) -> None:
    infrastructure: Object = {"kind": "X", "metadata": {"name": "[red]\x1b[2J"}, "status": {"conditions": conditions}}
    text = described(ClusterObjects(cluster(), LookupResult("present", "X", infrastructure)))
    assert "[red]\\x1b[2J" in text
    assert "\x1b" not in text


def test_deletion_names_its_finalizers_and_the_function_that_must_run() -> None:
    going = cluster()
    going["metadata"] |= {
        "deletionTimestamp": SINCE,
        "finalizers": ["cluster.cluster.x-k8s.io", "example.com/other"],
    }
    found = document(ClusterObjects(going), NOW)["cluster"]
    assert found["finalizers"] == [
        {"name": "cluster.cluster.x-k8s.io", "function": "cluster"},
        {"name": "example.com/other"},
    ]
    assert (
        "is being deleted for 3m12s; waits for finalizer cluster.cluster.x-k8s.io, which the function cluster removes; "
        "finalizer example.com/other"
    ) in described(ClusterObjects(going))
    del going["metadata"]["deletionTimestamp"]
    assert "finalizer" not in described(ClusterObjects(going))
