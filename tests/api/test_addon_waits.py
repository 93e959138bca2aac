"""While something is waited for: what goes meanwhile, and for how long."""

from __future__ import annotations

from typing import Any

from shared.api.resources import CLUSTER_ADDON, CONFIG_MAP
from shared.kube import Key, Object, dig
from tests.api.test_addon_policies import DEPLOYMENT, JOB, deployment
from tests.support.releases import write_release
from tests.support.world import ADDON, World


def job(world: World, name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example.com/image:1"}]}}
    metadata = {"name": name, "namespace": world.namespace, "annotations": annotations or {}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}


def test_object_deleted_while_waiting_is_recreated_if_drift_is_repaired(world: World) -> None:
    objects = [deployment(world), world.map("a")]
    world.cluster(write_release(world.releases, "v1", objects), policy={"drift": "repair"})
    world.secret()
    world.settle()
    assert world.condition("ObjectsReady")["status"] == "False"
    world.client.delete(CONFIG_MAP, Key(world.namespace, "a"))
    world.client.delete(DEPLOYMENT, Key(world.namespace, "web"))
    world.settle()
    assert world.names() == []
    world.resync()
    assert world.names() == ["a"]
    assert world.client.find(DEPLOYMENT, Key(world.namespace, "web")) is not None


def test_job_deleted_by_its_ttl_is_not_waited_for(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a"), job(world, "j", ttlSecondsAfterFinished=0)]))
    world.secret()
    world.settle()
    assert world.condition("ObjectsReady")["status"] == "False"
    world.client.delete(JOB, Key(world.namespace, "j"))  # as its time to live does
    world.settle()
    assert dig(world.addon(), "status.ready") is True


def test_hooks_that_do_not_complete_are_reported_after_the_timeout(world: World) -> None:
    hook = job(world, "before", annotations={"helm.sh/hook": "pre-install,pre-upgrade"})
    name = write_release(world.releases, "v1", [world.map("a"), hook])
    world.cluster(name, policy={"wait-timeout": "1"})
    world.secret()
    assert world.settle().retry_after == 5.0
    assert world.condition("HelmChartApplied")["reason"] == "ObjectsApplyingOngoing"
    conditions = dig(world.addon(), "status.conditions")
    for condition in conditions:
        condition["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    status = {"status": {"conditions": conditions}}
    world.client.patch(CLUSTER_ADDON, Key(world.namespace, ADDON), status, subresource="status")
    assert world.settle().retry_after == 60.0
    condition = world.condition("HelmChartApplied")
    assert (condition["reason"], condition["severity"]) == ("ObjectsNotReady", "Warning")
    assert "Job" in condition["message"]
