"""What went wrong in upgrades by earlier managers of cluster addons; the numbers are those of `test_known_defects`."""

from __future__ import annotations

import json

import pytest

from functions.cluster_hooks.function import call
from functions.cluster_hooks.protocol import HANDLERS
from shared.api.resources import CLUSTER
from shared.kube import Key, Object, Resource, dig
from shared.releases.stages import BEFORE_CLUSTER_UPGRADE
from tests.support.releases import write_release, write_stages
from tests.support.world import World

SCALER = Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
[PATH] = [handler.path for handler in HANDLERS if handler.hook == BEFORE_CLUSTER_UPGRADE]
STAGES = """
  AfterControlPlaneInitialized: &stages
    - {name: cni}
    - {name: csi}
  BeforeClusterUpgrade: *stages
"""


def ask(world: World) -> int:
    """What Cluster API is told before it upgrades the Cluster: seconds to ask again after, 0 to go on."""
    cluster = world.client.get(CLUSTER, Key(world.namespace, "demo"))
    cluster["spec"]["topology"]["version"] = "v1.36.3"
    answer = call(world.clients, PATH, json.dumps({"cluster": cluster}).encode())
    assert answer.code == 200, answer.message
    return int(answer.response["retryAfterSeconds"])


def go(world: World, class_name: str) -> float | None:
    world.secret()
    world.cluster(class_name)
    return world.settle().retry_after


@pytest.mark.parametrize("addon_version", ["v1", "v2"])
@pytest.mark.parametrize("asked", ["before", "after"])
def test_upgrade_without_stages_is_not_blocked_by_a_hook(world: World, asked: str, addon_version: str) -> None:
    """Where the addons kept their version, or were done before the hook was called, it was held up for ever."""
    go(world, write_release(world.releases, "v1", [world.map("a")], addon_version="v1"))
    world.cluster(write_release(world.releases, "v2", [world.map("a")], addon_version=addon_version))
    if asked == "before":
        assert ask(world) == 10
    world.settle()
    assert ask(world) == 0
    assert dig(world.addon(), "status.ready") is True
    assert dig(world.addon(), "spec.hook") == ""


def test_incomplete_upgrade_is_not_recorded_as_applied(world: World) -> None:
    """The version was written down before its addons were applied, so that the next look took them for done."""
    go(world, write_stages(world.releases, "v1", STAGES, {"cni": [world.map("net")], "csi": [world.map("store")]}))
    bad = {**world.map("bad"), "data": {"k": 1}}
    charts = {"cni": [world.map("net", "2")], "csi": [world.map("store", "2"), bad]}
    name = write_stages(world.releases, "v2", STAGES, charts)
    world.cluster(name)
    for _ in range(3):
        assert world.settle().retry_after == 20.0
        addon = world.addon()
        assert (addon["spec"]["clusterStack"], addon["spec"]["version"]) == ("test-stack-1-36-v1", "v1")
        assert addon["status"]["ready"] is False
        assert ask(world) == 10
    world.clients.releases.delete(name)
    assert go(world, write_stages(world.releases, "v2", STAGES, {**charts, "csi": [world.map("store", "2")]})) is None
    assert world.addon()["spec"]["version"] == "v2"
    assert ask(world) == 0


def scaler(world: World, version: str, replicas: int) -> Object:
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": world.namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": replicas,
        },
    }


def test_object_in_another_api_version_is_the_same_object(world: World) -> None:
    """The object was applied in its new version, and then deleted in its old one."""
    key = Key(world.namespace, "web")
    go(world, write_stages(world.releases, "v1", STAGES, {"cni": [scaler(world, "v1", 2)], "csi": [world.map("a")]}))
    uid = world.client.get(SCALER, key)["metadata"]["uid"]
    go(world, write_stages(world.releases, "v2", STAGES, {"cni": [scaler(world, "v2", 3)], "csi": [world.map("a")]}))
    live = world.client.get(SCALER, key)
    assert (live["metadata"]["uid"], live["spec"]["maxReplicas"]) == (uid, 3)
    [entry] = [entry for entry in dig(world.addon(), "status.resources") if entry["name"] == "web"]
    assert entry["version"] == "v2"


def test_stage_that_deletes_renders_its_chart_with_values(world: World) -> None:
    """It was rendered without, and objects that are named by values stayed."""
    config = """
  AfterControlPlaneInitialized: [{name: old}]
  BeforeClusterUpgrade: [{name: old, action: delete}]
"""
    text = (
        f'apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: "x-{{{{ .Values.k }}}}", namespace: {world.namespace}}}\n'
    )
    overwrite, templates = {"old": "k: {{ .Cluster.metadata.name }}"}, {"old": {"all.yaml": text}}
    for version, names in (("v1", ["x-demo"]), ("v2", [])):
        go(world, write_stages(world.releases, version, config, {}, overwrite=overwrite, templates=templates))
        assert world.names() == names


def test_each_upgrade_starts_from_the_inventory(world: World) -> None:
    """The second upgrade compared with what the first one had left, and what was old went by the new stages."""
    first = {"cni": [world.map("net"), world.map("one")], "csi": [world.map("store")]}
    go(world, write_stages(world.releases, "v1", STAGES, first))
    go(world, write_stages(world.releases, "v2", STAGES, {"cni": [world.map("net"), world.map("two")], "csi": []}))
    assert world.names() == ["net", "two"]
    assert world.addon()["metadata"]["annotations"]["ClusterAddonStage"] == "upgraded"
    config = "\n  BeforeClusterUpgrade: [{name: csi}]\n"
    assert go(world, write_stages(world.releases, "v3", config, {"csi": [world.map("store", "3")]})) is None
    assert world.names() == ["store"]
    assert world.read("store")["data"]["k"] == "3"


@pytest.mark.parametrize("staged", [True, False])
def test_faulty_release_is_replaced_by_a_fixed_one(world: World, *, staged: bool) -> None:
    """What the hook had asked for stayed asked for, and held up the fixed one as well."""

    def release(version: str, *, faulty: bool = False) -> str:
        broken = {"broken.yaml": '{{ fail "broken" }}'} if faulty else {}
        if not staged:
            return write_release(world.releases, version, [world.map("a", version)], templates=broken or None)
        charts = {"cni": [world.map("a", version)], "csi": []}
        return write_stages(world.releases, version, STAGES, charts, templates={"csi": broken})

    go(world, release("v1"))
    world.cluster(release("v2", faulty=True))
    assert ask(world) == 10
    assert world.settle().retry_after == 60.0
    assert ask(world) == 10
    world.cluster(release("v3"))
    assert ask(world) == 10
    assert world.settle().retry_after is None
    assert ask(world) == 0
    addon = world.addon()
    assert (addon["spec"]["clusterStack"], addon["spec"]["hook"]) == ("test-stack-1-36-v3", "")
    assert addon["status"]["ready"] is True
    assert world.read("a")["data"]["k"] == "v3"
