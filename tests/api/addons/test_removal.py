"""Removal of addons: by request, and what a ClusterAddon that was deleted by accident leaves to its successor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from infra.cli.main import app
from shared.api.resources import CLUSTER, CLUSTER_ADDON, SECRET
from shared.event import change_event
from shared.kube import Key, dig
from tests.support.releases import write_release
from tests.support.world import World

Run = Callable[..., Result]
KEEP = {"helm.sh/resource-policy": "keep"}


@pytest.fixture
def run(world: World, kubeconfig: Path, tmp_path: Path) -> Run:
    def invoke(*arguments: str) -> Result:
        options = ["-n", world.namespace, "--kubeconfig", str(kubeconfig), "--dir", str(tmp_path / "no-run")]
        return CliRunner().invoke(app, ["addons", "remove", "demo", *options, *arguments])

    return invoke


def applied(world: World, version: str = "v1", *names: str) -> str:
    name = write_release(world.releases, version, [world.map(one, version) for one in names or ("a", "b")])
    world.cluster(name)
    world.secret()
    assert world.settle().retry_after is None
    return name


def look(world: World) -> None:
    world.call("addon_apply", change_event(world.client.get(CLUSTER, world.cluster_key), "update", source="/test"))


def without_class(world: World) -> None:
    world.client.patch(CLUSTER, world.cluster_key, {"spec": {"topology": None}})


@pytest.mark.parametrize("has_class", [True, False])
def test_addons_are_removed_by_request(world: World, run: Run, has_class: bool) -> None:
    """Also those of a Cluster that has lost its class, whose objects stay until then."""
    name = applied(world)
    if not has_class:
        without_class(world)
        look(world)
        assert world.names() == ["a", "b"]
    result = run("--yes", "--no-wait")
    assert result.exit_code == 0, result.output
    assert "2 objects" in result.output
    look(world)
    assert world.names() == []
    condition = world.condition("HelmChartApplied")
    assert condition["reason"] == "AddonsRemoved"
    assert "addons remove demo --undo" in condition["message"]
    assert [entry["clusterStack"] for entry in dig(world.addon(), "status.history")] == [name]


def test_removed_addons_stay_removed_until_that_is_undone(world: World, run: Run) -> None:
    applied(world)
    assert run("--yes", "--no-wait").exit_code == 0
    look(world)
    version = world.addon()["metadata"]["resourceVersion"]
    look(world)
    world.resync()
    assert world.names() == []
    assert world.addon()["metadata"]["resourceVersion"] == version
    assert "done" in run("--yes").output  # the removal is done already
    applied(world, "v2")
    assert world.names() == []
    result = run("--undo", "--no-wait")
    assert result.exit_code == 0, result.output
    world.settle()
    assert world.names() == ["a", "b"]
    assert world.condition("HelmChartApplied")["status"] == "True"
    assert "no removal" in run("--undo").output


def test_removal_says_what_stays(world: World, run: Run) -> None:
    kept = {**world.map("kept")}
    kept["metadata"] = {**kept["metadata"], "annotations": KEEP}
    world.cluster(write_release(world.releases, "v1", [world.map("a"), kept]))
    world.secret()
    world.settle()
    assert run("--yes", "--no-wait").exit_code == 0
    look(world)
    assert world.names() == ["kept"]
    assert "ConfigMap" in world.condition("HelmChartApplied")["message"]
    assert "kept" in world.condition("HelmChartApplied")["message"]
    assert "kept" in run("--yes").output


def test_removal_asks_first(world: World, run: Run) -> None:
    applied(world)
    result = run()
    assert result.exit_code == 1
    assert "--yes" in result.output
    look(world)
    assert world.names() == ["a", "b"]


def test_removal_without_cluster_addon_is_an_error(world: World, run: Run) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    result = run("--yes")
    assert result.exit_code == 1
    assert "has no ClusterAddon" in result.output


@pytest.mark.parametrize("meanwhile", ["nothing", "another class"])
def test_recreated_cluster_addon_has_the_inventory_and_history_of_the_deleted_one(world: World, meanwhile: str) -> None:
    """So an object that the next release lacks is pruned, and a rollback is possible."""
    applied(world, "v1", "a", "b", "c")
    new = applied(world, "v2", "a", "b")
    before = world.addon()
    world.client.delete(CLUSTER_ADDON, world.addon_key)
    world.call("addon_apply", change_event(world.addon(), "update", source="/test"))
    assert world.client.find(CLUSTER_ADDON, world.addon_key) is None
    assert world.names() == ["a", "b"]
    if meanwhile == "another class":
        new = write_release(world.releases, "v3", [world.map("a", "v3")])
        world.cluster(new)
    assert world.settle().retry_after is None
    after = world.addon()
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert dig(after, "status.ready") is True
    history = [entry["clusterStack"] for entry in dig(after, "status.history")]
    old = [entry["clusterStack"] for entry in dig(before, "status.history")]
    assert history == (old if meanwhile == "nothing" else [new, old[0]])
    assert world.names() == (["a", "b"] if meanwhile == "nothing" else ["a"])
    secret = world.client.get(SECRET, Key(world.namespace, f"{world.addon_key.name}-manifests"))
    assert [owner["uid"] for owner in secret["metadata"]["ownerReferences"]] == [after["metadata"]["uid"]]
    assert set(secret["data"]) == set(history)
