"""Events lost, doubled and late, processes killed at any moment: the end is the same, and nothing is left over."""

from __future__ import annotations

import base64
import itertools
import os
import random
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from events.delivery import HttpDelivery
from events.forwarder import Forwarder
from functions import catalog
from infra import local_control_plane
from infra.local.functions_server import FunctionsServer
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, KIND_CLUSTER, SECRET
from shared.applier.inventory import load
from shared.kube import Client, Key, connect, dig
from shared.storage import ObjectStore
from tests.support.lossy_delivery import LossyDelivery, sweep, with_seeds
from tests.support.objects import create_local_cluster
from tests.support.planes import running_plane
from tests.support.releases import config_map, write_release
from tests.support.until import logged, until


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    with_seeds(metafunc)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Starts a control plane for this module: the forwarder and the sweep would reconcile objects of other tests."""
    with running_plane(tmp_path_factory.mktemp("chaos") / "management") as folder:
        yield local_control_plane.kubeconfig(folder)


@pytest.fixture
def environment(
    kubeconfig: Path, object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("RELEASE_SOURCE", str(tmp_path / "releases"))
    monkeypatch.setenv("CAPI_FUNCTIONS_DATA", str(tmp_path))
    monkeypatch.setenv("CAPI_FUNCTIONS_OWNER", str(os.getpid()))
    yield dict(os.environ)
    for folder in (tmp_path / "clusters").glob("*"):
        local_control_plane.remove(folder)


class ManagedCluster:
    def __init__(self, client: Client, namespace: str, releases: Path) -> None:
        self.client, self.namespace, self._releases = client, namespace, releases
        self.key, self.addon = Key(namespace, "demo"), Key(namespace, "cluster-addon-demo")

    def create(self) -> None:
        topology = {"classRef": {"name": self.release("v1", range(30))}}
        create_local_cluster(self.client, "demo", self.namespace, topology=topology)

    def release(self, version: str, numbers: range) -> str:
        objects = [config_map(f"m{number}", version) for number in numbers]
        return write_release(self._releases, version, objects)

    def upgrade(self, version: str, numbers: range) -> str:
        name = self.release(version, numbers)
        self.client.patch(CLUSTER, self.key, {"spec": {"topology": {"classRef": {"name": name}}}})
        return name

    def applied(self, name: str) -> bool:
        addon = self.client.find(CLUSTER_ADDON, self.addon)
        return dig(addon, "status.ready") is True and dig(addon, "spec.clusterStack") == name

    def workload(self) -> Client:
        secret = self.client.get(SECRET, Key(self.namespace, "demo-kubeconfig"))
        return connect.workload(base64.b64decode(secret["data"]["value"]))

    def check(self, version: str, numbers: range) -> None:
        """Asserts that the cluster has the objects of the release, and the inventory lists just them."""
        found = {
            obj["metadata"]["name"]: obj["data"]["k"]
            for obj in self.workload().list(CONFIG_MAP, "default")
            if obj["metadata"]["name"].startswith("m")
        }
        assert found == {f"m{number}": version for number in numbers}
        entries = load(dig(self.client.get(CLUSTER_ADDON, self.addon), "status.resources"))
        assert {entry.name for entry in entries} == set(found)
        assert {entry.status for entry in entries} == {"synced"}


def test_cluster_ends_the_same_when_two_of_five_events_are_lost(
    environment: dict[str, str], management: Client, namespace: str, tmp_path: Path, chaos_seed: int
) -> None:
    cluster = ManagedCluster(management, namespace, tmp_path / "releases")
    listener = socket.create_server(("127.0.0.1", 0))
    sink = f"http://127.0.0.1:{listener.getsockname()[1]}"
    functions = FunctionsServer({**environment, "K_SINK": sink}, tmp_path / "functions.log")
    functions.start()
    lossy = LossyDelivery(functions.url, chaos_seed)
    forwarder = Forwarder(management, catalog.triggers(), lossy, listener=listener)
    forwarder.start()
    reliable = HttpDelivery(functions.url)

    numbers, log = itertools.count(1), logged(tmp_path / "functions.log")

    def swept_until(reached: Callable[[], object], what: str) -> None:
        until(reached, what, pause=0.5, between=lambda: sweep(reliable, next(numbers)), details=log)

    try:
        cluster.create()
        swept_until(lambda: cluster.applied("test-stack-1-36-v1"), "v1")
        cluster.check("v1", range(30))
        name = cluster.upgrade("v2", range(10, 40))
        swept_until(lambda: cluster.applied(name), "v2")
        cluster.check("v2", range(10, 40))
        management.delete(CLUSTER, cluster.key)
        swept_until(lambda: management.find(CLUSTER, cluster.key) is None, "deletion")
        swept_until(lambda: management.find(CLUSTER_ADDON, cluster.addon) is None, "addon deleted")
        assert management.find(KIND_CLUSTER, cluster.key) is None
        assert list(management.list(SECRET, namespace)) == []
        assert lossy.lost > 0
    finally:
        forwarder.stop()
        functions.close()


def test_cluster_ends_the_same_when_functions_are_killed_again_and_again(
    environment: dict[str, str], management: Client, namespace: str, tmp_path: Path, chaos_seed: int
) -> None:
    cluster = ManagedCluster(management, namespace, tmp_path / "releases")
    functions = FunctionsServer(environment, tmp_path / "functions.log")
    functions.start()
    forwarder = Forwarder(management, catalog.triggers(), HttpDelivery(functions.url))
    forwarder.start()
    chance, log = random.Random(chaos_seed), logged(tmp_path / "functions.log")
    kills = 0

    def kill() -> None:
        nonlocal kills
        time.sleep(chance.uniform(0.3, 1.2))
        if kills < 12 or (version == "v4" and kills < 24):  # or a slow machine never gets to the end
            functions.kill()
            functions.start()
            kills += 1
            time.sleep(0.8 if kills % 3 else 2.5)

    try:
        cluster.create()
        name = "test-stack-1-36-v1"
        for version, numbers in (("v1", range(30)), ("v2", range(10, 40)), ("v3", range(5, 25)), ("v4", range(60))):
            name = name if version == "v1" else cluster.upgrade(version, numbers)
            until(partial(cluster.applied, name), name, pause=0, between=kill, details=log)
            cluster.check(version, numbers)
        management.delete(CLUSTER, cluster.key)
        until(lambda: management.find(CLUSTER, cluster.key) is None, "deletion", details=log)
        assert kills >= 4
    finally:
        forwarder.stop()
        functions.close()
