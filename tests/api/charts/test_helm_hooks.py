"""Hooks, waits and timeouts of a HelmReleaseProxy, with the controllers that run Jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra import local_control_plane
from shared.api.resources import CONFIG_MAP, HELM_RELEASE_PROXY
from shared.kube import Key, Object, Resource, dig
from shared.runtime import Answer
from tests.support.controllers import JOB, PENDING, workload
from tests.support.helm_releases import MAP, HelmWorld, packed
from tests.support.until import until


@pytest.fixture
def kubeconfig(plane_with_controllers: Path) -> Path:
    return local_control_plane.kubeconfig(plane_with_controllers)


def job(name: str, hooks: str, delete_policy: str = "", **spec: Any) -> str:
    obj = workload(JOB, name, "", **spec)
    obj["metadata"]["annotations"] = {"helm.sh/hook": hooks} | (
        {"helm.sh/hook-delete-policy": delete_policy} if delete_policy else {}
    )
    return json.dumps(obj)


def failing_job(name: str, hooks: str, delete_policy: str = "") -> str:
    """A Job whose pods never end, so that it exceeds its deadline."""
    return job(name, hooks, delete_policy, labels=PENDING, activeDeadlineSeconds=1)


def failed(world: HelmWorld, reason: str = "HelmInstallOrUpgradeFailed") -> None:
    """Calls the function until it reports a failure."""

    def has_failed() -> bool:
        world.call()
        return bool(world.condition("HelmReleaseReady")["reason"] == reason)

    until(has_failed, details=world.read)


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


def test_hooks_are_deleted_by_their_policy(helm_world: HelmWorld) -> None:
    """The ConfigMap of a hook stays until the Job that uses it has succeeded, and comes back for the next run."""
    world = helm_world
    policy = "before-hook-creation,hook-succeeded"
    annotations = {"hook": "pre-install,pre-upgrade", "hook-weight": "-1", "hook-delete-policy": policy}
    notes = json.dumps({f"helm.sh/{name}": value for name, value in annotations.items()})
    templates = {
        "a.yaml": MAP.format("a"),
        "input.yaml": MAP.format(f"input, annotations: {notes}"),
        "pre.yaml": job("pre", "pre-install,pre-upgrade", policy),
        "post.yaml": job("post", "post-install"),
    }
    world.chart("1.0.0", templates)
    world.proxy()
    assert world.call().retry_after
    assert world.client.find(CONFIG_MAP, Key(world.releases, "input")) is not None
    settled(world)
    assert set(jobs(world)) == {"post"}
    assert world.client.find(CONFIG_MAP, Key(world.releases, "input")) is None
    assert world.call(resync=True).retry_after is None
    assert set(jobs(world)) == {"post"}, "a check runs no hook"

    world.proxy(values="x: 2\n")
    assert world.call().retry_after
    assert set(jobs(world)) == {"post", "pre"}
    assert world.client.find(CONFIG_MAP, Key(world.releases, "input")) is not None
    settled(world)
    assert set(jobs(world)) == {"post"}
    assert world.history()[-1] == (2, "deployed")


def test_failed_hook_fails_the_release_at_once(helm_world: HelmWorld) -> None:
    """With `hook-failed` its Job is deleted, and runs again at the next attempt; otherwise the Job stays."""
    world = helm_world
    hooks = "pre-install,pre-upgrade"
    world.chart("1.0.0", {"pre.yaml": failing_job("pre", hooks, "hook-failed"), "a.yaml": MAP.format("a")})
    world.chart("2.0.0", {"pre.yaml": failing_job("pre", hooks), "a.yaml": MAP.format("a")})
    for version, left in (("1.0.0", set()), ("2.0.0", {"pre"})):
        world.proxy(version=version, options={"timeout": "1h"})
        failed(world)
        assert world.history()[-1][1] == "failed"
        assert set(jobs(world)) == left
        assert "pre failed" in world.condition("HelmReleaseReady")["message"]


def test_hook_that_the_helm_program_has_left_runs_again(helm_world: HelmWorld) -> None:
    world = helm_world
    templates = {"a.yaml": MAP.format("a"), "pre.yaml": job("pre", "pre-install,pre-upgrade")}
    (world.folder / "web.tgz").write_bytes(packed("1.0.0", templates))
    world.helm("install", "web", str(world.folder / "web.tgz"), "--create-namespace")
    former = jobs(world)["pre"]["metadata"]["uid"]
    world.chart("1.0.0", templates)
    world.proxy(values="x: 2\n")
    settled(world)
    assert world.history()[-1] == (2, "deployed")
    assert jobs(world)["pre"]["metadata"]["uid"] != former


def test_failed_hook_of_an_atomic_upgrade_rolls_back_without_hooks(helm_world: HelmWorld) -> None:
    world = helm_world
    world.chart("1.0.0", {"a.yaml": MAP.format("a"), "pre.yaml": job("pre", "pre-install,pre-upgrade")})
    world.proxy(options={"atomic": True})
    settled(world)
    first = jobs(world)["pre"]["metadata"]["uid"]
    world.chart("2.0.0", {"b.yaml": MAP.format("b"), "up.yaml": failing_job("up", "pre-upgrade")})
    world.proxy(version="2.0.0", options={"atomic": True})
    failed(world)
    settled(world)
    assert world.history() == [(1, "superseded"), (2, "failed"), (3, "deployed")]
    assert {name: one["metadata"]["uid"] for name, one in jobs(world).items()} == {"pre": first}
    assert world.client.find(CONFIG_MAP, Key(world.releases, "b")) is None
    assert "up failed" in world.condition("HelmReleaseReady")["message"]


def test_hooks_after_a_deletion_run_when_the_objects_are_gone(helm_world: HelmWorld) -> None:
    """Also without hooks before the deletion. A failed hook is reported."""
    world = helm_world
    world.chart("1.0.0", {"a.yaml": MAP.format("a"), "bye.yaml": failing_job("bye", "post-delete", "hook-failed")})
    world.proxy()
    settled(world)
    world.client.delete(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"))
    assert world.call().retry_after
    assert set(jobs(world)) == {"bye"}
    assert world.client.find(CONFIG_MAP, Key(world.releases, "a")) is None
    failed(world, "HelmReleaseDeletionFailed")
    assert world.client.find(CONFIG_MAP, Key(world.releases, "a")) is None
    world.proxy(options={"disableHooks": True})
    world.call()
    assert world.client.find(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo")) is None


SERVICE_ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")
ACCOUNT = """apiVersion: v1
kind: ServiceAccount
metadata:
  name: hooks
  annotations:
    helm.sh/hook: pre-install,pre-upgrade,post-install,post-upgrade
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
"""


def test_hook_before_and_after_the_other_objects_lasts_until_the_end(helm_world: HelmWorld) -> None:
    """Charts of admission webhooks run Jobs before and after the other objects with one ServiceAccount."""
    world = helm_world
    after = json.loads(job("after", "post-install,post-upgrade", "before-hook-creation,hook-succeeded"))
    after["spec"]["template"]["spec"]["serviceAccountName"] = "hooks"
    for revision in (1, 2):
        world.chart(f"{revision}.0.0", {"a.yaml": MAP.format("a"), "hooks.yaml": ACCOUNT, "j.yaml": json.dumps(after)})
        world.proxy(version=f"{revision}.0.0")
        settled(world)
        assert world.history()[-1] == (revision, "deployed")
        accounts = world.client.list(SERVICE_ACCOUNT, world.releases)
        assert "hooks" not in {obj["metadata"]["name"] for obj in accounts}
        assert jobs(world) == {}
