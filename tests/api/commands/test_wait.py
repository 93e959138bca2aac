"""`capi-functions wait` on a real API server."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from infra.cli.main import app
from shared.api.names import ADDON_PREFIX
from tests.support.releases import write_release
from tests.support.world import World

ADDON = f"{ADDON_PREFIX}demo"


def wait(world: World, kubeconfig: Path, *arguments: str, timeout: float = 0) -> Result:
    options = ["-n", world.namespace, "--kubeconfig", str(kubeconfig), "--timeout", str(timeout)]
    return CliRunner().invoke(app, ["wait", *arguments, *options])


def test_timeout_names_the_object_and_its_reason(world: World, kubeconfig: Path) -> None:
    absent = wait(world, kubeconfig, "addon", ADDON)
    assert absent.exit_code == 1
    assert f"{ADDON}: does not exist yet" in absent.stderr
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.settle()
    waiting = wait(world, kubeconfig, "addon", ADDON)
    assert waiting.exit_code == 1
    assert "ControlPlaneNotReady" in waiting.stderr


def test_wait_ends_with_the_state(world: World, kubeconfig: Path) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret()
    world.settle()
    assert wait(world, kubeconfig, "addons", ADDON).exit_code == 0
    assert wait(world, kubeconfig, "addons", ADDON, "--for", "ClusterReady").exit_code == 0
    assert wait(world, kubeconfig, "addons", ADDON, "--for", "ClusterReady=False").exit_code == 1
    assert wait(world, kubeconfig, "addons", ADDON, "--for", "delete").exit_code == 1
    assert wait(world, kubeconfig, "addons", "nobody", "--for", "delete").exit_code == 0
    assert wait(world, kubeconfig, "addons", ADDON, "--for", "Ready=maybe").exit_code == 2


def test_result_as_json(world: World, kubeconfig: Path) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.settle()
    waiting = wait(world, kubeconfig, "addons", ADDON, "nobody", "-o", "json")
    assert waiting.exit_code == 1
    found = json.loads(waiting.stdout)
    assert (found["for"], found["reached"]) == ("Ready", False)
    assert [one["name"] for one in found["objects"]] == [ADDON, "nobody"]
    assert found["objects"][0]["reason"].startswith("ControlPlaneNotReady")
    assert found["objects"][1]["reason"] == "does not exist yet"
    world.secret()
    world.settle()
    done = wait(world, kubeconfig, "addons", ADDON, "--for", "ClusterReady", "-o", "json")
    assert done.exit_code == 0
    objects = [{"name": ADDON, "reached": True, "reason": None}]
    assert json.loads(done.stdout) == {"for": "ClusterReady=True", "reached": True, "objects": objects}
