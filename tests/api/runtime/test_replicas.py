"""Concurrent deliveries of one event to two server processes have the effect of one delivery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event as Flag

import pytest

from events.delivery import HttpDelivery
from events.forwarder import Forwarder
from functions import catalog
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, SECRET
from shared.event import Event, change_event
from shared.kube import Client, Key, Object
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support.api_proxy import Exchange, Proxy, Request, healthy
from tests.support.releases import STACK, config_map, write_release
from tests.support.replicas import two_replicas
from tests.support.swept_addons import SweptAddons, owned
from tests.support.until import HANGS, until

DELIVERIES = 8


@pytest.fixture
def replicas(
    proxy: Proxy,
    object_store: ObjectStore,  # sets the environment
    tmp_path: Path,
) -> Iterator[list[HttpDelivery]]:
    with two_replicas(proxy.kubeconfig, tmp_path) as replicas:
        yield replicas


@pytest.fixture
def addons(management: Client, namespace: str, proxy: Proxy, replicas: list[HttpDelivery]) -> SweptAddons:
    return SweptAddons(management, namespace, proxy.kubeconfig, replicas[0])


def at_once(replicas: list[HttpDelivery], name: str, event: Event) -> list[Answer]:
    """Delivers one event alternately to both servers, and returns the answers."""
    with ThreadPoolExecutor(DELIVERIES) as pool:
        return list(pool.map(lambda number: replicas[number % 2](name, event), range(DELIVERIES)))


def objects(namespace: str, value: str, numbers: range) -> list[Object]:
    return [config_map(f"m{number}", value, namespace) for number in numbers]


def check(addons: SweptAddons, value: str, numbers: range) -> None:
    maps = owned(addons.client, CONFIG_MAP, addons.namespace)
    assert {name: obj["data"]["k"] for name, obj in maps.items()} == {f"m{number}": value for number in numbers}
    uids = {("ConfigMap", name): obj["metadata"]["uid"] for name, obj in maps.items()}
    assert {who: entry["uid"] for who, entry in addons.inventory().items()} == uids
    assert {entry["status"] for entry in addons.inventory().values()} == {"synced"}


def test_event_delivered_to_two_replicas_concurrently_applies_once(
    addons: SweptAddons, replicas: list[HttpDelivery], proxy: Proxy, tmp_path: Path
) -> None:
    first, second = range(20), range(5, 25)
    addons.apply_class(write_release(tmp_path, "v1", objects(addons.namespace, "1", first)))
    cluster = addons.client.get(CLUSTER, addons.cluster_key)
    created = at_once(replicas, "addon_create", change_event(cluster, "add", source="/test"))
    assert {answer.status for answer in created} <= {200, 204, 503}
    assert len(list(addons.client.list(CLUSTER_ADDON, addons.namespace))) == 1
    addons.until(lambda: addons.ready("test-stack-1-36-v1"), "v1")
    check(addons, "1", first)

    name = write_release(tmp_path, "v2", objects(addons.namespace, "2", second))
    addons.apply_class(name)
    event = change_event(addons.client.get(CLUSTER, addons.cluster_key), "update", source="/test")
    requests = [answer.reply for answer in at_once(replicas, "addon_apply", event)]
    assert any(requests)
    for request in filter(None, requests[:1]):
        assert {answer.status for answer in at_once(replicas, "release_assets", request)} <= {200, 503}
    before = len(proxy.writes())
    answers = at_once(replicas, "addon_apply", event)
    assert {answer.status for answer in answers} <= {202, 204, 503}
    # The first write of the status is a claim, so one delivery applies, and the others only repeat records.
    written = Counter(request.path.partition("?")[0].rpartition("/")[2] for request in proxy.writes()[before:])
    objects_written = {name: count for name, count in written.items() if name.startswith("m")}
    assert objects_written == dict.fromkeys((f"m{number}" for number in {*first, *second}), 1)
    assert written.total() - len(objects_written) <= 2 * DELIVERIES
    addons.until(lambda: addons.ready(name), "v2")
    check(addons, "2", second)

    before = len(proxy.writes())
    at_once(replicas, "addon_apply", event)
    at_once(replicas, "addon_create", event)
    assert len(proxy.writes()) == before


@contextmanager
def two_forwarders(addons: SweptAddons, replicas: list[HttpDelivery]) -> Iterator[list[Forwarder]]:
    """Runs two forwarders in the block that do not share a Lease: each delivers all changes, to a server of its own."""
    with ExitStack() as cleanup:
        forwarders = []
        for replica in replicas:
            forwarder = Forwarder(addons.client, catalog.triggers(), replica, namespace=addons.namespace)
            cleanup.callback(forwarder.stop)
            forwarder.start()
            assert forwarder.wait_synced(60)
            forwarders.append(forwarder)
        yield forwarders


def test_two_active_forwarders_have_the_effect_of_one(
    addons: SweptAddons, replicas: list[HttpDelivery], proxy: Proxy, tmp_path: Path
) -> None:
    """As while a Lease changes hands, or with two installations on one management cluster."""
    first, second = range(20), range(5, 25)
    names = [
        write_release(tmp_path, f"v{value}", objects(addons.namespace, str(value), numbers))
        for value, numbers in ((1, first), (2, second))
    ]
    with two_forwarders(addons, replicas) as forwarders:
        for name, value, numbers, written in (
            (names[0], "1", first, first),
            (names[1], "2", second, range(25)),
        ):
            before = len(proxy.writes())
            addons.apply_class(name)
            until(lambda name=name: addons.ready(name), name, details=addons.addon)  # type: ignore[misc]
            assert all(forwarder.drain(60, quiet=1.0) for forwarder in forwarders)
            check(addons, value, numbers)
            writes = Counter(request.path.partition("?")[0].rpartition("/")[2] for request in proxy.writes()[before:])
            objects_written = {name: count for name, count in writes.items() if name.startswith("m")}
            assert objects_written.keys() == {f"m{number}" for number in written}
            # The second forwarder's function may find the roll-out unfinished, and repeat it.
            assert max(objects_written.values()) <= len(forwarders)
            assert writes.total() - sum(objects_written.values()) <= 2 * DELIVERIES, writes
        assert len(list(addons.client.list(CLUSTER_ADDON, addons.namespace))) == 1
        before = len(proxy.writes())
        addons.client.patch(CLUSTER, addons.cluster_key, {"metadata": {"annotations": {"example.com/a": "b"}}})
        assert all(forwarder.drain(60, quiet=1.0) for forwarder in forwarders)
        assert len(proxy.writes()) == before, "they do not keep each other busy"
        addons.client.delete(CLUSTER, addons.cluster_key)
        until(lambda: addons.client.find(CLUSTER, addons.cluster_key) is None, "the Cluster's end")


@contextmanager
def straggling(addons: SweptAddons, replicas: list[HttpDelivery], proxy: Proxy, version: str) -> Iterator[None]:
    """One replica stops in the middle of applying this version until the end of the block."""
    awake = Flag()
    held: list[Request] = []

    def hold(exchange: Exchange) -> None:
        held.append(exchange.request)
        awake.wait(HANGS)
        healthy(exchange)

    proxy.fail(hold, lambda request: "configmaps/m" in request.path and f'"{version}"'.encode() in request.body)
    addons.apply_class(f"{STACK}-{version}")
    stuck = SweptAddons(addons.client, addons.namespace, proxy.kubeconfig, replicas[1])
    with ThreadPoolExecutor(1) as pool:
        straggler = pool.submit(stuck.deliver_change, CLUSTER, addons.cluster_key)
        try:
            while not held:
                assert not straggler.done(), straggler.result()
            yield
        finally:
            awake.set()
        straggler.result()


def test_late_replica_does_not_overwrite_a_newer_release(
    addons: SweptAddons, replicas: list[HttpDelivery], proxy: Proxy, tmp_path: Path
) -> None:
    """One replica stops in the middle of v2 while the other rolls out v3; then the first one continues."""
    numbers = range(12)
    for version in ("v1", "v2", "v3"):
        write_release(tmp_path, version, objects(addons.namespace, version, numbers))
    addons.apply_class(f"{STACK}-v1")
    addons.until(lambda: addons.ready(f"{STACK}-v1"), "v1")
    with straggling(addons, replicas, proxy, "v2"):
        addons.apply_class(f"{STACK}-v3")
        addons.until(lambda: addons.ready(f"{STACK}-v3"), "v3")
        check(addons, "v3", numbers)
    for _ in range(2):
        addons.sweep()
    assert addons.ready(f"{STACK}-v3")
    check(addons, "v3", numbers)


def test_late_replica_leaves_no_secret_of_a_deleted_addon(
    addons: SweptAddons, replicas: list[HttpDelivery], proxy: Proxy, tmp_path: Path
) -> None:
    """The manifests for a rollback are deleted with Cluster and addon, also without a garbage collector."""
    for version in ("v1", "v2"):
        write_release(tmp_path, version, objects(addons.namespace, version, range(3)))
    addons.apply_class(f"{STACK}-v1")
    addons.until(lambda: addons.ready(f"{STACK}-v1"), "v1")
    manifests = Key(addons.namespace, f"{addons.addon_key.name}-manifests")
    assert addons.client.find(SECRET, manifests)
    with straggling(addons, replicas, proxy, "v2"):
        addons.client.delete(CLUSTER, addons.cluster_key)
        addons.client.delete(CLUSTER_ADDON, addons.addon_key)
        addons.until(addons.gone, "the addon gone")
        assert addons.client.find(SECRET, manifests) is None
    assert addons.client.find(SECRET, manifests) is None
