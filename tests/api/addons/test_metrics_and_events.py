"""Metrics, Kubernetes Events and log fields of rollouts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from prometheus_client import REGISTRY

from shared.api.resources import CONFIG_MAP, EVENT
from shared.event import change_event
from shared.kube import Key, Object
from shared.runtime import logs
from tests.support.releases import write_release, write_stages
from tests.support.world import World

STAGES = """
  AfterControlPlaneInitialized: &stages
    - {name: cni}
    - name: csi
      waitForPreCondition:
        objects: [{key: go, apiVersion: v1, kind: ConfigMap, name: go, namespace: %s}]
        conditions: go.data.k == "1"
  BeforeClusterUpgrade: *stages
"""


def counted() -> dict[str, float]:
    counts = {
        outcome: REGISTRY.get_sample_value("capi_functions_addon_objects_total", {"outcome": outcome})
        for outcome in ("applied", "pruned", "failed")
    } | {"drift": REGISTRY.get_sample_value("capi_functions_drift_repaired_total")}
    return {name: value or 0.0 for name, value in counts.items()}


def during(act: Callable[[], object]) -> dict[str, float]:
    """Returns the increments of the counters by `act`."""
    before = counted()
    act()
    return {name: value - before[name] for name, value in counted().items() if value != before[name]}


def events(world: World) -> dict[str, Object]:
    return {event["reason"]: event for event in world.client.list(EVENT, world.namespace)}


def test_metric_counts_objects_by_outcome(world: World) -> None:
    world.secret()
    world.cluster(write_release(world.releases, "v1", [world.map(name) for name in ("a", "b", "c")]))
    assert during(world.settle) == {"applied": 3.0}
    world.cluster(write_release(world.releases, "v2", [world.map("a", "2"), world.map("b")]))
    assert during(world.settle) == {"applied": 1.0, "pruned": 1.0}
    bad = {**world.map("bad"), "data": {"k": 1}}
    world.cluster(write_release(world.releases, "v3", [world.map("a", "3"), world.map("b"), bad]))
    assert during(world.settle) == {"applied": 1.0, "failed": 1.0}


@pytest.mark.parametrize(("drift", "expected"), [("repair", {"applied": 2.0, "drift": 2.0}), ("report", {})])
def test_metric_counts_repaired_drift(world: World, drift: str, expected: dict[str, float]) -> None:
    world.secret()
    names = ("a", "b", "c")
    world.cluster(write_release(world.releases, "v1", [world.map(n) for n in names]), policy={"drift": drift})
    world.settle()
    world.client.patch(CONFIG_MAP, Key(world.namespace, "a"), {"data": {"k": "changed"}})
    world.client.delete(CONFIG_MAP, Key(world.namespace, "b"))
    assert during(world.resync) == expected
    assert during(world.resync) == {}


def test_finished_stage_records_an_event_and_log_lines_name_the_stage(world: World) -> None:
    name = write_stages(
        world.releases, "v1", STAGES % world.namespace, {"cni": [world.map("net")], "csi": [world.map("store")]}
    )
    world.secret()
    world.cluster(name)
    answer = world.settle()
    assert answer.context == {"cluster": "demo", "release": name, "stage": "csi"}
    event = events(world)["StageDone"]
    assert (event["type"], event["involvedObject"]["kind"]) == ("Normal", "ClusterAddon")
    assert event["message"] == f"{name}: stage cni applied"
    about = change_event(world.addon(), "update", source="/test")
    assert f"cluster=demo release={name} stage=csi " in logs.line("addon_apply", about, answer, 0.1)
    fields = logs.fields("addon_apply", about, answer, 0.1)
    assert (fields["cluster"], fields["release"], fields["stage"]) == ("demo", name, "csi")


def test_log_lines_name_cluster_and_release(world: World) -> None:
    name = write_release(world.releases, "v1", [world.map("a")])
    world.secret()
    world.cluster(name)
    assert world.settle().context == {"cluster": "demo", "release": name}


def test_kept_objects_record_an_event(world: World) -> None:
    marked = world.map("marked")
    marked["metadata"] |= {"annotations": {"helm.sh/resource-policy": "keep"}}
    world.secret()
    world.cluster(write_release(world.releases, "v1", [world.map("a"), world.map("theirs"), marked]))
    world.settle()
    taken = {"metadata": {"labels": {"clusterstack.x-k8s.io/instance": None}}}
    world.client.patch(CONFIG_MAP, Key(world.namespace, "theirs"), taken)
    world.cluster(write_release(world.releases, "v2", [world.map("a")]))
    world.settle()
    message = events(world)["ObjectsKept"]["message"]
    assert f"ConfigMap {world.namespace}/marked" in message
    assert f"ConfigMap {world.namespace}/theirs" in message
    assert f"ConfigMap {world.namespace}/a" not in message


@pytest.mark.parametrize(("drift", "times"), [("repair", 2), ("report", 1)])
def test_repaired_drift_records_an_event_though_the_status_is_unchanged(world: World, drift: str, times: int) -> None:
    """Each repair records an event; drift that is only reported records one event while it lasts."""
    world.secret()
    world.cluster(write_release(world.releases, "v1", [world.map("a")]), policy={"drift": drift})
    world.settle()
    for _ in range(2):
        world.client.patch(CONFIG_MAP, Key(world.namespace, "a"), {"data": {"k": "changed"}})
        world.resync()
    event = events(world)["DriftFound"]
    assert (event["count"], event["type"]) == (times, "Warning")
