"""Ready follows the health of workloads after the rollout: looked at with each look at settled addons."""

from __future__ import annotations

import pytest

from shared.api.resources import CLUSTER_ADDON, DEPLOYMENT
from shared.kube import Key, dig
from tests.support.releases import write_release
from tests.support.world import World


def available(world: World, replicas: int) -> None:
    counts = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": replicas, "availableReplicas": replicas}
    status = {"observedGeneration": 1, **counts}
    key = Key(world.namespace, "web")
    world.client.patch(DEPLOYMENT, key, {"status": status}, subresource="status")


@pytest.mark.parametrize("drift", ["ignore", "report"])
def test_ready_follows_the_health_of_a_deployment(world: World, drift: str) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a"), world.deployment()]))
    world.secret()
    world.settle()
    annotations = {"capi-functions.dev/drift": drift}
    world.client.patch(CLUSTER_ADDON, world.addon_key, {"metadata": {"annotations": annotations}})
    available(world, 1)
    world.resync(repeated=True)
    assert dig(world.addon(), "status.ready") is True
    version = world.addon()["metadata"]["resourceVersion"]
    world.resync()
    assert world.addon()["metadata"]["resourceVersion"] == version
    available(world, 0)
    assert world.resync().retry_after is not None
    assert world.condition("Ready")["status"] == "False"
    assert world.condition("ObjectsReady")["reason"] == "WaitingForObjects"
    assert "Deployment" in world.condition("ObjectsReady")["message"]
    available(world, 1)
    assert world.resync(repeated=True).retry_after is None
    assert dig(world.addon(), "status.ready") is True
