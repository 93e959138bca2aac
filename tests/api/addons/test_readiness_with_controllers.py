"""Readiness of addons with real controllers: no test here writes a status."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import local_control_plane
from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER, CLUSTER_ADDON, DAEMON_SET, DEPLOYMENT, POD
from shared.event import change_event
from shared.kube import Key, Object, dig, key_of
from shared.runtime import Answer
from tests.support.api_proxy import Proxy, api_server
from tests.support.controllers import JOB, PENDING, STATEFUL_SET, workload
from tests.support.releases import write_release
from tests.support.until import until
from tests.support.world import World


@pytest.fixture
def kubeconfig(plane_with_controllers: Path) -> Path:
    return local_control_plane.kubeconfig(plane_with_controllers)


def settled(world: World) -> Answer:
    """Calls the function again as often as it requests, without the full interval."""

    def last_word() -> Answer | None:
        answer = world.settle()
        return answer if answer.retry_after is None else None

    return until(last_word, details=lambda: dig(world.addon(), "status.conditions"))


def everything(world: World, image: str = "example.com/image:1") -> list[Object]:
    objects = [
        workload(DEPLOYMENT, "deployment", world.namespace, replicas=3),
        workload(STATEFUL_SET, "stateful", world.namespace, replicas=2, serviceName="stateful"),
        workload(DAEMON_SET, "daemons", world.namespace),
    ]
    for obj in objects:
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return [*objects, workload(JOB, "job", world.namespace)]


def test_addon_waits_for_workloads_of_every_kind(world: World) -> None:
    name = write_release(world.releases, "v1", everything(world))
    world.cluster(name)
    world.secret()
    settled(world)
    assert dig(world.addon(), "status.ready") is True
    assert world.condition("ObjectsReady")["status"] == "True"
    phases = [dig(pod, "status.phase") for pod in world.client.list(POD, world.namespace)]
    assert sorted(phases) == ["Running"] * 7 + ["Succeeded"]


def test_addon_is_ready_after_an_upgrade_only_when_it_is_rolled_out(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", everything(world)))
    world.secret()
    settled(world)
    new = "example.com/image:2"
    world.cluster(write_release(world.releases, "v2", everything(world, new)))
    settled(world)
    running = [pod for pod in world.client.list(POD, world.namespace) if dig(pod, "status.phase") == "Running"]
    kept = [pod for pod in running if not dig(pod, "metadata.deletionTimestamp")]
    assert {pod["spec"]["containers"][0]["image"] for pod in kept} == {new}
    assert len(kept) == 7


def test_workload_that_does_not_become_ready_is_named(world: World) -> None:
    objects = [workload(DEPLOYMENT, "good", world.namespace), workload(DEPLOYMENT, "bad", world.namespace, PENDING)]
    world.cluster(write_release(world.releases, "v1", objects))
    world.secret()

    def waiting_message() -> str:
        assert world.settle().retry_after == 5.0
        return str(world.condition("ObjectsReady")["message"])

    until(
        lambda: "good" not in waiting_message() and "0 of 1 replicas available" in waiting_message(),
        details=waiting_message,
    )
    assert f"Deployment {world.namespace}/bad" in waiting_message()
    assert dig(world.addon(), "status.ready") is False
    world.cluster(write_release(world.releases, "v2", [workload(DEPLOYMENT, "bad", world.namespace)]))
    settled(world)
    assert world.client.find(DEPLOYMENT, Key(world.namespace, "good")) is None
    assert dig(world.addon(), "status.ready") is True


def test_next_wave_is_applied_after_the_hook_job(world: World) -> None:
    jobs = []
    for version in ("v1", "v2"):
        job = workload(JOB, "before", world.namespace)
        job["metadata"]["annotations"] = {"helm.sh/hook": "pre-install,pre-upgrade"}
        job["spec"]["template"]["spec"]["containers"][0]["args"] = [version]
        web = workload(DEPLOYMENT, f"web-{version}", world.namespace)
        world.cluster(write_release(world.releases, version, [job, web]))
        world.secret()
        settled(world)
        assert dig(world.addon(), "status.ready") is True
        done = world.client.get(JOB, Key(world.namespace, "before"))
        created = world.client.get(DEPLOYMENT, Key(world.namespace, f"web-{version}"))["metadata"]["creationTimestamp"]
        assert dig(done, "status.completionTime") <= created
        jobs.append(done["metadata"]["uid"])
    assert len(set(jobs)) == 2


def in_other_forms(world: World) -> list[Object]:
    """Workloads with values that an API server omits or stores in another form."""
    deployment = workload(DEPLOYMENT, "deployment", world.namespace, replicas=1, minReadySeconds=0)
    daemons = workload(DAEMON_SET, "daemons", world.namespace)
    for obj in (deployment, daemons):
        obj["metadata"]["creationTimestamp"] = None
        pod = obj["spec"]["template"]["spec"]
        pod |= {"hostNetwork": False, "tolerations": [{"key": "a", "operator": "Exists", "effect": ""}]}
        pod["containers"][0] |= {
            "env": [{"name": "EMPTY", "value": ""}, {"name": "FULL", "value": "x"}],
            "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": 1.5}},
        }
    return [deployment, daemons]


@pytest.mark.parametrize("drift", ["repair", "report"])
def test_drift_check_writes_nothing_without_drift(world: World, kubeconfig: Path, drift: str) -> None:
    """Controllers write status and annotations, and the server stores some fields in another form."""
    with Proxy(api_server(kubeconfig)) as proxy:
        world.kubeconfig = proxy.kubeconfig
        world.cluster(write_release(world.releases, "v1", in_other_forms(world)), policy={"drift": drift})
        world.secret()
        settled(world)
        writes, before = len(proxy.writes()), world.addon()["metadata"]["resourceVersion"]
        for _ in range(2):
            world.resync()
        assert [str(write) for write in proxy.writes()[writes:]] == []
        assert world.addon()["metadata"]["resourceVersion"] == before
        # A real change is found.
        patch = {"spec": {"template": {"spec": {"hostNetwork": True}}}}
        world.client.patch(DEPLOYMENT, Key(world.namespace, "deployment"), patch)
        world.resync()
        live = world.client.get(DEPLOYMENT, Key(world.namespace, "deployment"))
        assert dig(live, "spec.template.spec.hostNetwork", False) is (drift == "report")
        assert {write.path.rpartition("/")[2] for write in proxy.writes()[writes:]} == {"deployment"}


def test_addon_is_deleted_with_its_cluster(world: World) -> None:
    """The garbage collector deletes it by its owner reference; the finalizer keeps it until the function has run."""
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret()
    settled(world)
    addon, cluster = world.addon_key, world.client.get(CLUSTER, Key(world.namespace, "demo"))
    owners = [owner["uid"] for owner in dig(world.addon(), "metadata.ownerReferences")]
    assert owners == [cluster["metadata"]["uid"]]
    world.client.delete(CLUSTER, key_of(cluster))
    until(lambda: dig(world.client.find(CLUSTER_ADDON, addon), "metadata.deletionTimestamp"))
    assert world.addon()["metadata"]["finalizers"] == [ADDON_FINALIZER]
    world.call("addon_apply", change_event(world.addon(), "update", source="/test"))
    assert world.client.find(CLUSTER_ADDON, addon) is None
