"""Which objects belong to an addon: their identity, namespace, cluster and former versions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from shared.api.resources import CLUSTER_ROLE, CONFIG_MAP, NAMESPACE, SERVICE
from shared.kube import Client, Key, Object, Resource, dig
from tests.support.releases import config_map, write_release
from tests.support.until import until
from tests.support.world import World


def service(world: World, name: str) -> Object:
    metadata = {"name": name, "namespace": world.namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}


SCALER = Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")


def scaler(world: World, version: str, replicas: int) -> Object:
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": world.namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": replicas,
        },
    }


def test_upgrade_changes_objects_of_both_releases(world: World) -> None:
    """Upgrades created and deleted objects, but never updated objects of both releases."""
    names = [f"m{number}" for number in range(5)]
    world.upgrade([world.map(name) for name in names], [world.map(name, "2") for name in names])
    assert {world.read(name)["data"]["k"] for name in names} == {"2"}
    assert dig(world.addon(), "status.ready") is True


def test_objects_of_different_kinds_can_share_a_name(world: World) -> None:
    """The two objects counted as one: the second was not applied, or was deleted with the first."""
    elsewhere = f"{world.namespace}-2"
    both = [world.map("same"), service(world, "same"), config_map("same", "other", elsewhere)]
    world.upgrade(both)
    assert world.read("same")
    assert world.client.get(SERVICE, Key(world.namespace, "same"))
    assert world.client.get(CONFIG_MAP, Key(elsewhere, "same"))["data"] == {"k": "other"}
    world.upgrade(both, both[:1])
    assert world.read("same")
    assert world.client.find(SERVICE, Key(world.namespace, "same")) is None
    assert world.client.find(CONFIG_MAP, Key(elsewhere, "same")) is None


def test_each_object_is_applied_in_its_own_namespace(world: World) -> None:
    """All objects were applied to kube-system, whatever their namespace."""
    unnamed = config_map(f"of-{world.namespace}")
    del unnamed["metadata"]["namespace"]
    role: Object = {
        "apiVersion": CLUSTER_ROLE.api_version,
        "kind": "ClusterRole",
        "metadata": {"name": f"of-{world.namespace}", "namespace": "stray"},
        "rules": [],
    }
    objects = [world.map("a"), config_map("b", namespace=f"{world.namespace}-other"), unnamed, role]
    world.upgrade(objects, objects)
    assert world.read("a")
    assert world.client.get(CONFIG_MAP, Key(f"{world.namespace}-other", "b"))
    assert world.client.get(CONFIG_MAP, Key("kube-system", f"of-{world.namespace}"))
    assert world.client.get(CLUSTER_ROLE, Key("", f"of-{world.namespace}"))
    world.upgrade(objects, objects, objects[:1])
    assert world.client.find(CONFIG_MAP, Key("kube-system", f"of-{world.namespace}")) is None
    assert world.client.find(CLUSTER_ROLE, Key("", f"of-{world.namespace}")) is None


def test_object_in_another_api_version_is_the_same_object(world: World) -> None:
    """The object was applied in its new version, and then deleted in its former one."""
    key = Key(world.namespace, "web")
    world.upgrade([scaler(world, "v1", 2)])
    uid = world.client.get(SCALER, key)["metadata"]["uid"]
    world.upgrade([scaler(world, "v1", 2)], [scaler(world, "v2", 3)])
    live = world.client.get(SCALER, key)
    assert (live["metadata"]["uid"], live["spec"]["maxReplicas"]) == (uid, 3)
    [entry] = [entry for entry in dig(world.addon(), "status.resources") if entry["name"] == "web"]
    assert entry["version"] == "v2"


def test_concurrent_clusters_do_not_mix_their_charts(management: Client, world: World, kubeconfig: Path) -> None:
    """Charts of all clusters were unpacked into one folder and mixed up."""
    worlds = []
    for number in range(1, 7):
        name = f"{world.namespace}-{number}"
        management.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        one = World(management, name, kubeconfig.read_bytes(), world.clients, world.releases)
        one.cluster(write_release(world.releases, f"v{number}", [one.map("m", str(number))]))
        one.secret()
        worlds.append(one)
    with ThreadPoolExecutor(len(worlds)) as pool:  # a fetch is delivered again while others use all threads
        list(pool.map(lambda one: until(lambda: one.settle().retry_after is None, one.namespace), worlds))
    for number, one in enumerate(worlds, 1):
        assert dig(one.addon(), "status.ready") is True
        assert one.names() == ["m"]
        assert one.read("m")["data"] == {"k": str(number)}
