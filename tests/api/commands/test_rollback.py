"""`capi-functions rollback` on a real API server, with functions that are called as a broker calls them."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from infra.cli.main import app
from infra.operations.addons import rollback as command
from infra.operations.waiting import WaitTimeout
from shared.api.resources import CLUSTER, CLUSTER_ADDON, HELM_RELEASE_PROXY
from shared.event import change_event
from shared.helm_proxies.names import CLUSTER_NAME_LABEL, HCP_NAME_LABEL
from shared.kube import Key, Object, dig
from tests.support import objects
from tests.support.releases import write_release
from tests.support.until import HANGS
from tests.support.world import World

Run = Callable[..., Result]


@pytest.fixture
def run(world: World, kubeconfig: Path, tmp_path: Path) -> Run:
    def invoke(*arguments: str) -> Result:
        options = ["-n", world.namespace, "--kubeconfig", str(kubeconfig), "--dir", str(tmp_path / "no-run")]
        return CliRunner().invoke(app, ["rollback", "--cluster", "demo", *options, *arguments])

    return invoke


def requested_rollback(world: World) -> str | None:
    found: str | None = dig(world.addon(), ("metadata", "annotations", "capi-functions.dev/rollback-from"))
    return found


def upgraded(world: World) -> tuple[str, str]:
    names = []
    for version in ("v1", "v2"):
        names.append(write_release(world.releases, version, [world.map("a", version)]))
        world.cluster(names[-1])
        world.secret()
        assert world.settle().retry_after is None
    return names[0], names[1]


def look(world: World) -> None:
    world.call("addon_apply", change_event(world.addon(), "update", source="/test"))


def test_rollback_and_undo(world: World, run: Run) -> None:
    old, new = upgraded(world)
    result = run("--no-wait")
    assert result.exit_code == 0, result.output
    assert f"rolling back to {old} (addons v1, 1 object)" in result.output
    assert requested_rollback(world) == new
    look(world)
    assert world.read("a")["data"] == {"k": "v1"}
    assert "done" in run().output  # the rollback is done already
    result = run("--undo", "--no-wait")
    assert f"rolling out again: {new}" in result.output
    assert requested_rollback(world) is None
    look(world)
    assert world.read("a")["data"] == {"k": "v2"}


def test_rollback_waits_and_prints_progress(world: World, run: Run) -> None:
    _, new = upgraded(world)
    assert run("--no-wait").exit_code == 0
    key, messages = Key(world.namespace, "demo"), list[str]()
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[None] = pool.submit(
            command.wait_until_applied, world.client, key, within=HANGS, progress=messages.append
        )
        while not messages and not waiting.done():
            # The command prints each new message, so it has to see the waiting state before the function runs.
            status: Object = {"status": {"conditions": [_condition("Ready", "Busy")]}}
            world.client.patch(CLUSTER_ADDON, world.addon_key, status, subresource="status")
            time.sleep(0.1)
        assert messages == ["Busy: for a test"]
        assert not waiting.done()
        look(world)
        waiting.result(30)
    assert world.condition("HelmChartApplied")["reason"] == "RolledBack"
    assert requested_rollback(world) == new


def _condition(type_: str, reason: str) -> Object:
    since = "2026-01-01T00:00:00Z"
    return {"type": type_, "status": "False", "reason": reason, "message": "for a test", "lastTransitionTime": since}


def test_rollback_wait_times_out(world: World) -> None:
    upgraded(world)
    cluster = world.client.get(CLUSTER, Key(world.namespace, "demo"))
    command.request_rollback(world.client, cluster, world.addon())
    with pytest.raises(WaitTimeout, match="do functions run"):
        command.wait_until_applied(world.client, Key(world.namespace, "demo"), within=0.1, progress=lambda _line: None)


def test_rollback_without_cluster_addon_or_manifest_is_an_error(world: World, run: Run) -> None:
    def refused(*arguments: str) -> str:
        result = run(*arguments)
        assert result.exit_code == 1
        return str(result.output)

    assert "does not exist; choose the namespace" in refused()
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    assert "has no ClusterAddon: no addons were applied to it" in refused()
    chart = {"chartName": "c", "repoURL": "https://a.b", "clusterRef": {"kind": "Cluster", "name": "demo"}}
    for name, proxy in (("c-demo", "metrics"), ("by-hand", "")):
        labels = {CLUSTER_NAME_LABEL: "demo"} | ({HCP_NAME_LABEL: proxy} if proxy else {})
        release = objects.manifest(HELM_RELEASE_PROXY, name, world.namespace, metadata={"labels": labels}, spec=chart)
        world.client.create(HELM_RELEASE_PROXY, release)
    assert "HelmChartProxies: metrics. To go back" in " ".join(refused().split())
    world.secret()
    world.settle()
    assert "no manifest of a class other than" in refused()
    assert requested_rollback(world) is None
    assert "no rollback" in refused("--undo")


def test_rollback_does_not_wait_for_a_paused_cluster(world: World, run: Run) -> None:
    _, new = upgraded(world)
    world.cluster(new, paused=True)
    result = run()
    assert result.exit_code == 0, result.output
    assert "not waited for: the Cluster is paused" in result.output
    assert requested_rollback(world) == new


def test_undo_does_not_print_the_message_of_the_rollback_that_it_ends(world: World, run: Run) -> None:
    upgraded(world)
    assert run("--no-wait").exit_code == 0
    look(world)
    result = run("--undo", "--timeout", "0.1")  # no function runs, so the condition stays as it is
    assert result.exit_code == 1
    progress, _, timed_out = result.output.partition("timed out")
    assert timed_out
    assert "RolledBack" not in progress


def test_time_out_asks_whether_functions_run_only_if_none_has_reacted(world: World, run: Run) -> None:
    upgraded(world)
    asked = run("--timeout", "0.1").output
    assert "no function has changed the ClusterAddon since the request: do functions run for this cluster?" in asked
    before = world.addon()
    status: Object = {"status": {"conditions": [_condition("Ready", "FailedToApplyObjects")]}}
    world.client.patch(CLUSTER_ADDON, world.addon_key, status, subresource="status")
    key = Key(world.namespace, "demo")
    with pytest.raises(WaitTimeout) as timed_out:
        command.wait_until_applied(world.client, key, within=0.1, progress=lambda _line: None, before=before)
    assert str(timed_out.value).endswith("last status: FailedToApplyObjects: for a test")
