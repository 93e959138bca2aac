"""Helm's hooks run in their operations, with the controllers that run Jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import local_control_plane
from shared.kube import Key, Object, dig
from shared.runtime import Answer
from tests.support.controllers import JOB, workload
from tests.support.releases import write_release, write_stages
from tests.support.until import until
from tests.support.world import World


@pytest.fixture
def kubeconfig(plane_with_controllers: Path) -> Path:
    return local_control_plane.kubeconfig(plane_with_controllers)


def settled(world: World) -> None:
    """Calls the function again as often as it requests, without the full interval."""

    def last_word() -> Answer | None:
        answer = world.settle()
        return answer if answer.retry_after is None else None

    until(last_word, details=lambda: dig(world.addon(), "status.conditions"))
    assert dig(world.addon(), "status.ready") is True


def hook(world: World, name: str, hooks: str, **pod: str) -> Object:
    job = workload(JOB, name, world.namespace)
    job["metadata"]["annotations"] = {"helm.sh/hook": hooks}
    job["spec"]["template"]["spec"] |= pod
    return job


def uids(world: World) -> dict[str, str]:
    return {job["metadata"]["name"]: job["metadata"]["uid"] for job in world.client.list(JOB, world.namespace)}


def test_hook_jobs_run_in_their_operations(world: World) -> None:
    """`both` runs again at the upgrade, though its content is the same; a check runs none."""
    jobs = [
        hook(world, "install", "post-install"),
        hook(world, "upgrade", "pre-upgrade"),
        hook(world, "both", "post-install,pre-upgrade"),
    ]
    world.cluster(write_release(world.releases, "v1", [world.map("a"), *jobs]), policy={"drift": "repair"})
    world.secret()
    settled(world)
    first = uids(world)
    assert sorted(first) == ["both", "install"]
    world.resync()
    assert uids(world) == first
    jobs[0]["spec"]["template"]["spec"]["containers"][0]["args"] = ["v2"]
    world.cluster(write_release(world.releases, "v2", [world.map("a", "2"), *jobs]), policy={"drift": "repair"})
    settled(world)
    second = uids(world)
    assert sorted(second) == ["both", "install", "upgrade"]
    assert second["install"] == first["install"]
    assert second["both"] != first["both"]
    world.resync()
    assert uids(world) == second
    world.client.delete(JOB, Key(world.namespace, "both"))
    world.resync()
    assert sorted(uids(world)) == ["install", "upgrade"]
    world.cluster(write_release(world.releases, "v3", [world.map("a")]))
    settled(world)
    assert uids(world) == {}


def test_upgrade_leaves_objects_of_install_hooks_as_they_are(world: World) -> None:
    def key(value: str) -> Object:
        obj = world.map("key", value)
        obj["metadata"]["annotations"] = {"helm.sh/hook": "pre-install"}
        return obj

    world.cluster(write_release(world.releases, "v1", [key("1")]))
    world.secret()
    settled(world)
    world.cluster(write_release(world.releases, "v2", [key("2"), world.map("a")]))
    settled(world)
    assert world.names() == ["a", "key"]
    assert world.read("key")["data"] == {"k": "1"}
    [entry] = [one for one in dig(world.addon(), "status.resources") if one["name"] == "key"]
    assert entry["status"] == "synced"


def test_stage_that_an_upgrade_adds_is_installed(world: World) -> None:
    jobs = {
        name: [hook(world, f"{name}-{op}", f"post-{op}") for op in ("install", "upgrade")] for name in ("cni", "csi")
    }

    def stages(*names: str) -> str:
        listed = "".join(f"\n    - {{name: {name}, action: apply}}" for name in names)
        return f"\n  AfterControlPlaneInitialized: &stages{listed}\n  BeforeClusterUpgrade: *stages\n"

    world.cluster(write_stages(world.releases, "v1", stages("cni"), {"cni": jobs["cni"]}))
    world.secret()
    settled(world)
    assert sorted(uids(world)) == ["cni-install"]
    world.cluster(write_stages(world.releases, "v2", stages("cni", "csi"), jobs))
    settled(world)
    assert sorted(uids(world)) == ["cni-install", "cni-upgrade", "csi-install"]


def test_hook_job_that_cannot_start_says_why(world: World) -> None:
    """Its ServiceAccount is no hook, and comes later: with Helm, too, such a Job never starts."""
    account: Object = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "runner", "namespace": world.namespace},
    }
    job = hook(world, "early", "pre-install", serviceAccountName="runner")
    world.cluster(write_release(world.releases, "v1", [account, job]))
    world.secret()

    def message() -> str:
        world.settle()
        return str(world.condition("HelmChartApplied")["message"])

    until(lambda: "FailedCreate" in message() and 'serviceaccount "runner" not found' in message(), details=message)


def test_hook_job_of_the_upgrade_uses_an_account_of_the_release(world: World) -> None:
    """The shape of longhorn: at the first installation the Job would wait for the account for ever."""
    account: Object = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "runner", "namespace": world.namespace},
    }
    for version in ("v1", "v2"):
        job = hook(world, "upgrade", "pre-upgrade", serviceAccountName="runner")
        world.cluster(write_release(world.releases, version, [account, job, world.map("a", version)]))
        world.secret()
        settled(world)
        assert sorted(uids(world)) == ([] if version == "v1" else ["upgrade"])


def test_hook_that_holds_an_addon_without_wait_says_what_releases_it(world: World) -> None:
    """A suspended Job is not waited for, also one that has failed."""
    job = hook(world, "early", "pre-install", serviceAccountName="missing")
    name = write_release(world.releases, "v1", [job, world.map("a")])
    world.cluster(name, policy={"wait": "false"})
    world.secret()
    assert world.settle().retry_after == 5.0
    message = world.condition("HelmChartApplied")["message"]
    command = f"kubectl -n {world.namespace} patch job early --type merge"
    assert f"""suspend it in the workload cluster: {command} -p '{{"spec":{{"suspend":true}}}}'""" in message
    world.client.patch(JOB, Key(world.namespace, "early"), {"spec": {"suspend": True}})
    settled(world)
    assert world.names() == ["a"]
