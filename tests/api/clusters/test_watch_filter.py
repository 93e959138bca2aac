"""The watch filter on a real API server: what an installation does to Clusters with and without its label."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from events.delivery import InProcessDelivery
from events.forwarder import Forwarder
from functions import catalog
from functions.cluster_hooks.function import call
from shared.api.hooks import BEFORE_CLUSTER_DELETE
from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER, CLUSTER_ADDON, EVENT, KIND_CLUSTER
from shared.event import Change, change_event
from shared.kube import Client, Key, Object, Resource, dig
from shared.watch_filter import LABEL, SETTING
from tests.support import objects
from tests.support.hooks_server import PATHS
from tests.support.releases import write_release
from tests.support.until import until
from tests.support.world import World

FUNCTIONS = ("addon_create", "addon_apply", "addon_cleanup", "cluster", "kubeconfig", "kind_cluster")


@pytest.fixture(autouse=True)
def blue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "blue")


def give_label(world: World, resource: Resource, key: Key, value: str | None) -> Object:
    return world.client.patch(resource, key, {"metadata": {"labels": {LABEL: value}}})


def versions(world: World) -> dict[str, str]:
    kinds = (CLUSTER, KIND_CLUSTER, CLUSTER_ADDON, EVENT)
    found = [(kind.kind, one["metadata"]) for kind in kinds for one in world.client.list(kind, world.namespace)]
    return {f"{kind} {one['name']}": one["resourceVersion"] for kind, one in found}


def deliver_everything(world: World) -> None:
    """Delivers each change of each object to each function: with the object, by reference, and as a resync."""
    changes: tuple[Change, ...] = ("add", "update", "delete")
    for resource in (CLUSTER, KIND_CLUSTER, CLUSTER_ADDON):
        for obj in world.client.list(resource, world.namespace):
            for change in changes:
                for options in ({}, {"reference": True}, {"reference": True, "resync": True}):
                    event = change_event(obj, change, source="/test", **options)
                    for name in FUNCTIONS:
                        answer = world.call(name, event)
                        assert (answer.status, answer.retry_after) == (204, None), (name, change, answer)


@pytest.mark.parametrize("value", [None, "green"])
def test_cluster_without_the_label_is_left_alone_until_it_is_gone(world: World, value: str | None) -> None:
    name = write_release(world.releases, "v1", [world.map("a")])
    world.cluster(name, infrastructureRef={"apiGroup": KIND_CLUSTER.group, "kind": "KINDCluster", "name": "demo"})
    world.secret()
    world.client.create(
        KIND_CLUSTER, objects.manifest(KIND_CLUSTER, "demo", world.namespace, spec={"clusterName": "demo"})
    )
    addon = objects.manifest(CLUSTER_ADDON, world.addon_key.name, world.namespace)
    addon["metadata"]["finalizers"] = [ADDON_FINALIZER]
    addon["spec"] = {"clusterRef": {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "name": "demo"}}
    for resource in (CLUSTER, KIND_CLUSTER):
        give_label(world, resource, world.cluster_key, value)
        world.client.patch(resource, world.cluster_key, {"metadata": {"finalizers": ["test.dev/hold"]}})

    before = versions(world)
    deliver_everything(world)
    assert versions(world) == before
    world.client.create(CLUSTER_ADDON, addon)
    before = versions(world)
    deliver_everything(world)
    assert versions(world) == before
    for resource, key in (
        (CLUSTER_ADDON, world.addon_key),
        (CLUSTER, world.cluster_key),
        (KIND_CLUSTER, world.cluster_key),
    ):
        world.client.delete(resource, key)
    before = versions(world)
    deliver_everything(world)
    assert versions(world) == before

    request = {"cluster": world.client.get(CLUSTER, world.cluster_key)}
    called = call(world.clients, PATHS[BEFORE_CLUSTER_DELETE], json.dumps(request).encode())
    assert (called.code, called.outcome) == (200, "continue"), called
    assert versions(world) == before

    objects.remove(world.client, CLUSTER, world.cluster_key)
    before = versions(world)
    deliver_everything(world)
    assert versions(world) == before, "the addon of a Cluster that is gone"
    objects.remove(world.client, KIND_CLUSTER, world.cluster_key)


@pytest.fixture
def forwarder(world: World) -> Iterator[Forwarder]:
    triggers = {name: catalog.triggers()[name] for name in ("addon_create", "addon_apply", "release_assets")}
    forwarder = Forwarder(
        world.client, triggers, InProcessDelivery(catalog.handler, world.clients), namespace=world.namespace
    )
    forwarder.start()
    assert forwarder.wait_synced(60)
    yield forwarder
    forwarder.stop()


@pytest.mark.usefixtures("forwarder")
def test_label_that_is_added_later_starts_the_functions(world: World, management: Client) -> None:
    """An addon from before needs no label of its own: it gets that of its Cluster."""
    world.secret()
    cluster = world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    addon = objects.manifest(CLUSTER_ADDON, world.addon_key.name, world.namespace)
    reference = {"apiVersion": cluster["apiVersion"], "kind": "Cluster", "name": "demo"}
    addon["spec"] = {"clusterRef": {**reference, "uid": cluster["metadata"]["uid"]}}
    management.create(CLUSTER_ADDON, addon)
    give_label(world, CLUSTER, world.cluster_key, "blue")
    until(lambda: dig(world.addon(), "status.ready") is True)
    assert dig(world.addon(), ("metadata", "labels", LABEL)) == "blue"
    assert world.names() == ["a"]

    # The copy decides once the Cluster is gone: the finalizer goes, as nobody else would remove it.
    management.delete(CLUSTER, world.cluster_key)
    management.delete(CLUSTER_ADDON, world.addon_key)
    until(lambda: management.find(CLUSTER_ADDON, world.addon_key) is None)
