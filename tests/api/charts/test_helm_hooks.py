"""Hooks, waits and timeouts of a HelmReleaseProxy, with the controllers that run Jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra import local_control_plane
from shared.api.resources import CONFIG_MAP, HELM_RELEASE_PROXY
from shared.kube import Key, Object, dig
from shared.runtime import Answer
from tests.support.controllers import JOB, workload
from tests.support.helm_releases import MAP, HelmWorld
from tests.support.until import until


@pytest.fixture
def kubeconfig(plane_with_controllers: Path) -> Path:
    return local_control_plane.kubeconfig(plane_with_controllers)


def job(name: str, hooks: str) -> str:
    obj = workload(JOB, name, "")
    obj["metadata"]["annotations"] = {"helm.sh/hook": hooks}
    return json.dumps(obj)


def settled(world: HelmWorld) -> None:
    """Calls the function again as often as it requests, without the full interval."""

    def last_word() -> Answer | None:
        answer = world.call()
        return answer if answer.retry_after is None else None

    until(last_word, details=world.read)


def jobs(world: HelmWorld) -> dict[str, Object]:
    return {obj["metadata"]["name"]: obj for obj in world.client.list(JOB, world.releases)}


def test_hooks_run_in_their_operations(helm_world: HelmWorld) -> None:
    world = helm_world
    hooks = {"pre.yaml": job("pre", "pre-install"), "up.yaml": job("up", "post-upgrade")}
    world.chart("1.0.0", {"a.yaml": MAP.format("a"), **hooks, "bye.yaml": job("bye", "pre-delete")})
    world.proxy()
    assert world.call().retry_after
    assert world.condition("HelmReleaseReady")["reason"] == "HelmReleasePending"
    assert world.history() == [(1, "pending-install")]
    assert world.client.find(CONFIG_MAP, Key(world.releases, "a")) is None
    settled(world)
    assert world.history() == [(1, "deployed")]
    assert set(jobs(world)) == {"pre"}
    first = jobs(world)["pre"]

    world.proxy(values="x: 2\n")
    settled(world)
    assert world.history()[-1] == (2, "deployed")
    assert jobs(world)["pre"]["metadata"]["uid"] == first["metadata"]["uid"]
    assert dig(jobs(world)["up"], "status.succeeded") == 1

    world.client.delete(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"))
    assert world.call().retry_after
    assert world.condition("HelmReleaseReady")["reason"] == "HelmReleasePending"
    assert dig(world.read(), "status.status") == "uninstalling"
    assert world.client.find(CONFIG_MAP, Key(world.releases, "a")) is not None

    def gone() -> bool:
        if world.client.find(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo")) is None:
            return True
        world.call()
        return False

    until(gone, details=lambda: jobs(world))
    assert world.client.find(CONFIG_MAP, Key(world.releases, "a")) is None


def test_release_is_deployed_once_its_jobs_are_done(helm_world: HelmWorld) -> None:
    world = helm_world
    world.chart("1.0.0", {"job.yaml": json.dumps(workload(JOB, "work", ""))})
    world.proxy(options={"wait": True, "waitForJobs": True})
    assert world.call().retry_after
    assert world.condition("HelmReleaseReady")["reason"] == "HelmReleasePending"
    assert "work" in world.condition("HelmReleaseReady")["message"]
    assert world.history() == [(1, "pending-install")]
    settled(world)
    assert world.history() == [(1, "deployed")]
