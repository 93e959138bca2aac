"""Cluster API's call before an upgrade waits for the addons of the new release, and for nothing else."""

from __future__ import annotations

import json

import pytest

from functions.cluster_hooks.function import call
from functions.cluster_hooks.protocol import HANDLERS
from shared.api.resources import CLUSTER
from shared.kube import Key, dig
from shared.releases.stages import BEFORE_CLUSTER_UPGRADE
from tests.support.releases import write_release, write_stages
from tests.support.world import World

[PATH] = [handler.path for handler in HANDLERS if handler.hook == BEFORE_CLUSTER_UPGRADE]


STAGES = """
  AfterControlPlaneInitialized: &stages
    - {name: cni}
    - {name: csi}
  BeforeClusterUpgrade: *stages
"""


def ask(world: World) -> int:
    """Calls the hook before an upgrade as Cluster API does; returns the seconds until the next call, 0 to continue."""
    cluster = world.client.get(CLUSTER, Key(world.namespace, "demo"))
    cluster["spec"]["topology"]["version"] = "v1.36.3"
    called = call(world.clients, PATH, json.dumps({"cluster": cluster}).encode())
    assert called.code == 200, called.answer.message
    return int(called.response["retryAfterSeconds"])


@pytest.mark.parametrize("addon_version", ["v1", "v2"])
@pytest.mark.parametrize("asked", ["before", "after"])
def test_upgrade_without_stages_is_not_blocked_by_a_hook(world: World, asked: str, addon_version: str) -> None:
    """An upgrade with unchanged addons, or with addons applied before the hook's call, was blocked forever."""
    world.reconcile(write_release(world.releases, "v1", [world.map("a")], addon_version="v1"))
    world.cluster(write_release(world.releases, "v2", [world.map("a")], addon_version=addon_version))
    if asked == "before":
        assert ask(world) == 10
    world.settle()
    assert ask(world) == 0
    assert dig(world.addon(), "status.ready") is True
    assert dig(world.addon(), "spec.hook") == ""


def test_incomplete_upgrade_is_not_recorded_as_applied(world: World) -> None:
    """The version was recorded before the addons were applied, so the next reconcile took them for applied."""
    world.reconcile(
        write_stages(world.releases, "v1", STAGES, {"cni": [world.map("net")], "csi": [world.map("store")]})
    )
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
    assert (
        world.reconcile(write_stages(world.releases, "v2", STAGES, {**charts, "csi": [world.map("store", "2")]}))
        is None
    )
    assert world.addon()["spec"]["version"] == "v2"
    assert ask(world) == 0


@pytest.mark.parametrize("staged", [True, False])
def test_faulty_release_is_replaced_by_a_fixed_one(world: World, *, staged: bool) -> None:
    """The hook of the faulty release stayed set, and blocked the fixed one."""

    def release(version: str, *, faulty: bool = False) -> str:
        broken = {"broken.yaml": '{{ fail "broken" }}'} if faulty else {}
        if not staged:
            return write_release(world.releases, version, [world.map("a", version)], templates=broken or None)
        charts = {"cni": [world.map("a", version)], "csi": []}
        return write_stages(world.releases, version, STAGES, charts, templates={"csi": broken})

    world.reconcile(release("v1"))
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
