"""A deleted Cluster waits until its charts are uninstalled, if they are to be, but not for ever."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from functions import catalog
from functions.cluster.status import FINALIZER
from functions.cluster_hooks.function import call
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, EVENT, HELM_RELEASE_PROXY, SECRET
from shared.event import change_event
from shared.kube import ApiError, Key, Object, owner_reference
from shared.runtime import Answer
from tests.support import objects
from tests.support.accounts import as_account
from tests.support.helm_releases import MAP, HelmWorld
from tests.support.hooks_server import PATHS

BEFORE_DELETE = PATHS["BeforeClusterDelete"]
UNINSTALL = {"policy": "Uninstall"}


def installed(world: HelmWorld, **spec: object) -> None:
    """Installs a chart, and deletes the Cluster."""
    world.chart("1.0.0", {"a.yaml": MAP.format("a")})
    world.proxy(**spec)
    assert world.call().retry_after is None
    world.client.patch(CLUSTER, world.cluster_key, {"metadata": {"finalizers": [FINALIZER]}})
    world.client.delete(CLUSTER, world.cluster_key)


def names(world: HelmWorld) -> set[str]:
    return {obj["metadata"]["name"] for obj in world.client.list(CONFIG_MAP, world.releases)} - {"kube-root-ca.crt"}


def reconcile(world: HelmWorld) -> Answer:
    event = change_event(world.client.get(CLUSTER, world.cluster_key), "update", source="/test")
    return catalog.handler("cluster")(world.clients, replace(event, repeated=True))


def deletion(world: HelmWorld) -> Object:
    """Returns the Cluster's condition about its deletion."""
    return objects.condition(world.client.get(CLUSTER, world.cluster_key), "Deleting")


def warnings(world: HelmWorld) -> list[str]:
    events = world.client.list(EVENT, world.namespace)
    return [event["message"] for event in events if event["reason"] == "ChartsNotUninstalled"]


def test_cluster_goes_after_its_charts(helm_world: HelmWorld) -> None:
    world = helm_world
    installed(world, clusterDeletion=UNINSTALL)
    assert reconcile(world).retry_after == 5.0
    assert deletion(world)["reason"] == "WaitingForBeforeDeleteHook"
    assert deletion(world)["message"].splitlines()[1:] == ["* web-demo"]
    assert world.call().status == 204
    assert names(world) == set()
    assert world.client.find(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo")) is None
    reconcile(world)
    assert world.client.find(CLUSTER, world.cluster_key) is None
    assert not warnings(world)


@pytest.mark.parametrize(
    "spec", [{}, {"clusterDeletion": {"policy": "Leave"}}, {"clusterDeletion": UNINSTALL | {"timeout": "0s"}}]
)
def test_cluster_goes_with_its_charts(helm_world: HelmWorld, spec: dict[str, object]) -> None:
    world = helm_world
    installed(world, **spec)
    reconcile(world)
    assert world.client.find(CLUSTER, world.cluster_key) is None
    assert names(world) == {"a"}


def test_cluster_that_does_not_answer_goes_after_a_time(helm_world: HelmWorld) -> None:
    world = helm_world
    installed(world, clusterDeletion=UNINSTALL)
    held = {"ownerReferences": [owner_reference(world.client.get(CLUSTER, world.cluster_key))], "finalizers": ["a.b/c"]}
    addon = objects.manifest(
        CLUSTER_ADDON, "held", world.namespace, metadata=held, spec={"clusterRef": {"name": "demo"}}
    )
    world.client.create(CLUSTER_ADDON, addon)
    world.client.delete(SECRET, Key(world.namespace, "demo-kubeconfig"))
    reconcile(world)
    assert world.call().retry_after == 10.0
    reconcile(world)
    assert "* web-demo: * ClusterAvailable: " in deletion(world)["message"]
    world.proxy(clusterDeletion=UNINSTALL | {"timeout": "0s"})
    for _ in range(2):
        reconcile(world)
        assert deletion(world)["reason"] == "WaitingForWorkersDeletion"
    assert len(warnings(world)) == 1
    objects.remove(world.client, CLUSTER_ADDON, Key(world.namespace, "held"))
    reconcile(world)
    assert world.client.find(CLUSTER, world.cluster_key) is None
    world.call()
    assert world.client.find(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo")) is None


def test_hook_holds_core_until_the_charts_are_uninstalled(helm_world: HelmWorld, kubeconfig: Path) -> None:
    world = helm_world
    installed(world, clusterDeletion=UNINSTALL)
    body = json.dumps({"cluster": world.client.get(CLUSTER, world.cluster_key)}).encode()
    limited = as_account(
        world.client,
        kubeconfig,
        "hooks/cluster-hooks.yaml",
        ("addons.cluster.x-k8s.io", "helmreleaseproxies", "delete"),
    )
    for _ in range(2):
        blocked = call(limited, BEFORE_DELETE, body)
        assert blocked.outcome == "block"
        assert "* web-demo" in blocked.response["message"]
    assert world.call().status == 204
    assert names(world) == set()
    assert call(limited, BEFORE_DELETE, body).outcome == "continue"


@pytest.mark.parametrize("timeout", ["25h", "-1s", "soon", ""])
def test_unusable_timeout_is_refused(helm_world: HelmWorld, timeout: str) -> None:
    with pytest.raises(ApiError, match="timeout"):
        helm_world.proxy(clusterDeletion=UNINSTALL | {"timeout": timeout})
