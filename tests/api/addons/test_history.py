"""Manifests stored for rollbacks: those of the last two releases, if their size permits."""

from __future__ import annotations

import base64
import random

import pytest

from shared.addons.manifest_history import SaveManifest
from shared.api.resources import CLUSTER_ADDON, SECRET
from shared.kube import Key, Object, dig
from shared.runtime import Answer
from tests.support.releases import HOOK_STAGES, write_release, write_stages
from tests.support.world import World

OLD, NEW = "test-stack-1-36-v1", "test-stack-1-36-v2"


def back(world: World) -> Answer:
    annotations = {"capi-functions.dev/rollback-from": NEW}
    key = world.addon_key
    world.client.patch(CLUSTER_ADDON, key, {"metadata": {"annotations": annotations}})
    return world.settle()


def bulk(world: World, seed: int, count: int) -> list[Object]:
    """Returns objects with manifests of about 300 kB each, compressed."""
    chance = random.Random(seed)
    return [
        {**world.map(f"b{number}"), "data": {"k": base64.b64encode(chance.randbytes(300_000)).decode()}}
        for number in range(count)
    ]


def history(world: World) -> list[str]:
    return [entry["clusterStack"] for entry in dig(world.addon(), "status.history", [])]


def test_second_apply_of_a_release_keeps_the_manifest_of_the_former_one(world: World) -> None:
    for version in ("v1", "v2"):
        charts = {"cni": [world.map("net", version)], "last": [world.map("late", version)]}
        world.cluster(write_stages(world.releases, version, HOOK_STAGES, charts))
        world.secret()
        world.settle()
    world.client.patch(CLUSTER_ADDON, world.addon_key, {"spec": {"hook": "AfterClusterUpgrade"}})
    assert world.settle().retry_after is None
    assert history(world) == [NEW, OLD]
    back(world)
    assert world.read("net")["data"] == {"k": "v1"}


def test_older_manifest_is_dropped_if_both_do_not_fit_into_the_secret(world: World) -> None:
    """The newer manifest is stored, and the upgrade succeeds."""
    world.cluster(write_release(world.releases, "v1", bulk(world, 1, 2)))
    world.secret()
    world.settle()
    world.cluster(write_release(world.releases, "v2", bulk(world, 2, 2)))
    world.settle()
    assert dig(world.addon(), "status.ready") is True
    assert history(world) == [NEW]


def test_manifest_that_is_too_large_is_reported_and_the_former_one_is_kept(world: World) -> None:
    """An event reports it, and a rollback to the former release is possible."""
    world.cluster(write_release(world.releases, "v1", [world.map("a", "v1")]))
    world.secret()
    world.settle()
    world.cluster(write_release(world.releases, "v2", [world.map("a", "v2"), *bulk(world, 1, 4)]))
    world.settle()
    assert dig(world.addon(), "status.ready") is True
    assert history(world) == [OLD]
    assert "ManifestNotKept" in world.event_messages()
    back(world)
    assert world.read("a")["data"] == {"k": "v1"}


def test_rollback_out_of_an_incomplete_upgrade(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a", "1"), world.map("gone")]))
    world.secret()
    world.settle()
    refused = {**world.map("bad"), "data": {"k": 1}}
    world.cluster(write_release(world.releases, "v2", [world.map("a", "2"), world.map("new"), refused]))
    world.settle()
    assert world.names() == ["a", "gone", "new"]
    back(world)
    assert world.names() == ["a", "gone"]
    assert world.read("a")["data"] == {"k": "1"}


@pytest.mark.parametrize("owners", [1, 2])
def test_manifest_is_added_to_the_secret_of_the_addon(world: World, owners: int) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret()
    world.settle()
    key = Key(world.namespace, f"{world.addon_key.name}-manifests")
    if owners == 2:
        own = world.client.get(SECRET, key)["metadata"]["ownerReferences"]
        references = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "other"}, *own]
        world.client.patch(SECRET, key, {"metadata": {"ownerReferences": references}})
    addon, before = world.addon(), world.clients.management.requests
    assert SaveManifest(addon, NEW, [world.map("a")]).execute(world.clients).classes == {OLD, NEW}
    assert world.clients.management.requests - before == (1 if owners == 1 else 3)
    assert world.client.get(SECRET, key)["data"].keys() == {OLD, NEW}
