"""The same functions, driven by Knative's own receive adapter: the unmodified binary, pointed at a local control plane.

Its events go to our ingress instead of a broker, which changes nothing about the events.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from events.delivery import HttpDelivery
from events.dispatcher import Dispatcher
from events.ingress import Ingress
from functions import catalog
from infra import local_control_plane
from infra.local.functions_server import FunctionsServer
from shared.api.resources import CLUSTER, CLUSTER_ADDON, KIND_CLUSTER, SECRET
from shared.event import Event
from shared.kube import Client, Key, dig
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support.knative_adapter import adapter, watched_since, watches
from tests.support.objects import create_local_cluster
from tests.support.ports import KNATIVE_PORT, exclusive
from tests.support.releases import config_map, write_release
from tests.support.until import logged, until


@pytest.fixture
def port_of_probes() -> Iterator[None]:
    """The dispatcher of another run does not need the port meanwhile."""
    with exclusive(f"port-{KNATIVE_PORT}"):
        yield


@pytest.fixture
def seen(
    port_of_probes: None,
    management: Client,
    kubeconfig: Path,
    object_store: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[list[tuple[str, Event, Answer]]]:
    """Runs functions, ingress and both adapters. Returns the list of delivered events."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("RELEASE_SOURCE", str(tmp_path / "releases"))
    monkeypatch.setenv("CAPI_FUNCTIONS_DATA", str(tmp_path))
    monkeypatch.setenv("CAPI_FUNCTIONS_OWNER", str(os.getpid()))
    functions = FunctionsServer(os.environ, tmp_path / "functions.log")
    functions.start()
    delivered: list[tuple[str, Event, Answer]] = []
    dispatcher = Dispatcher(
        catalog.triggers(),
        HttpDelivery(functions.url),
        on_delivery=lambda name, event, answer, _seconds: delivered.append((name, event, answer)),
    )
    ingress = Ingress(dispatcher.submit, port=0)
    ingress.start()
    before = watches(management)
    adapters = [
        adapter(kubeconfig, ingress.url, tmp_path / f"adapter-{reference}.log", reference=reference)
        for reference in (False, True)
    ]
    try:
        until(lambda: watched_since(management, before), "the adapters' watches")
        yield delivered
    finally:
        for process in adapters:
            process.kill()
            process.wait()
        ingress.stop()
        dispatcher.stop()
        functions.close()
        for folder in (tmp_path / "clusters").glob("*"):
            local_control_plane.remove(folder)


def test_functions_reconcile_on_the_events_of_the_adapters(
    seen: list[tuple[str, Event, Answer]], management: Client, namespace: str, tmp_path: Path
) -> None:
    log = tmp_path / "functions.log"
    key, addon_key = Key(namespace, "demo"), Key(namespace, "cluster-addon-demo")
    first = write_release(tmp_path / "releases", "v1", [config_map("a"), config_map("b")])
    second = write_release(tmp_path / "releases", "v2", [config_map("a", "2"), config_map("c")])
    create_local_cluster(management, "demo", namespace, topology={"classRef": {"name": first}})

    def applied(name: str) -> bool:
        addon = management.find(CLUSTER_ADDON, addon_key)
        return dig(addon, "status.ready") is True and dig(addon, "spec.clusterStack") == name

    until(lambda: applied(first), "v1 applied", details=logged(log))
    management.patch(CLUSTER, key, {"spec": {"topology": {"classRef": {"name": second}}}})
    until(lambda: applied(second), "v2 applied", details=logged(log))
    entries = dig(management.get(CLUSTER_ADDON, addon_key), "status.resources")
    assert {entry["name"]: entry["status"] for entry in entries} == {"a": "synced", "c": "synced"}
    management.delete(CLUSTER, key)
    until(lambda: management.find(CLUSTER, key) is None, "the Cluster gone", details=logged(log))
    assert management.find(KIND_CLUSTER, key) is None
    assert list(management.list(SECRET, namespace)) == []

    # Every function that a Cluster, or an object that functions create for it, starts.
    concerned = {"cluster", "kubeconfig", "addon_create", "addon_apply", "addon_cleanup", "kind_cluster"}
    concerned |= {
        "cluster_resource_set_binding",
        "cluster_stack_release",
        "cluster_wake",
        "provider_wake",
        "rollout_wake",
        "source_wake",
    }

    def ours() -> list[tuple[str, Event]]:
        return [(name, event) for name, event, _ in list(seen) if event.namespace == namespace and event.change]

    def called() -> set[str]:
        return {name for name, _ in ours()}

    # Some start at a deletion, whose event may arrive later.
    until(lambda: called() == concerned, "every function called", details=called)
    assert {event.source for _, event in ours()} == {management.host}
    secrets = [event for _, event in ours() if event.kind == "Secret"]
    assert secrets
    assert all(event.object is None and "data" not in event.data for event in secrets)
    assert {answer.status for _, _, answer in seen} <= {200, 202, 204, 503}
