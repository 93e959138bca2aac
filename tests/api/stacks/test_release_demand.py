"""Any pod may send events: a requested release is fetched only if an object refers to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functions import catalog
from shared.api.resources import CLUSTER, CLUSTER_STACK_RELEASE
from shared.clients import Clients
from shared.event import PING, Event, own_event
from shared.kube import Client, Key, Resource
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support.event_receiver import EventReceiver
from tests.support.releases import config_map, write_release

TAG = "test-demand-1-36-v1"


@pytest.fixture
def made(management: Client, namespace: str) -> Iterator[Any]:
    there: list[tuple[Resource, str]] = []

    def make(kind: Resource, name: str, **content: Any) -> None:
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}
        management.create(kind, body)
        there.append((kind, name))

    yield make
    for kind, name in there:
        management.delete(kind, Key(namespace, name))


@pytest.fixture(autouse=True)
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, object_store: ObjectStore) -> None:
    monkeypatch.setenv("RELEASE_SOURCE", str(tmp_path))
    write_release(tmp_path, "v1", [config_map("m")], stack="test-demand-1-36")


def request_fetch(clients: Clients, tag: str = TAG) -> Answer:
    event = own_event("release.wanted", source="/addon_create", subject=tag, data={"release": tag})
    return catalog.handler("release_assets")(clients, event)


def test_release_without_references_is_not_fetched(clients: Clients, object_store: ObjectStore) -> None:
    for number in range(1, 6):
        assert request_fetch(clients, f"test-demand-1-36-v{number}").status == 204
    assert list(object_store.list_objects("")) == []  # not even a note of the failure


def test_release_of_a_clusters_class_is_fetched(clients: Clients, made: Any) -> None:
    made(CLUSTER, "demand", spec={"topology": {"classRef": {"name": TAG}, "version": "v1.36.0"}})
    assert "fetched" in request_fetch(clients).message
    assert clients.releases.load(TAG) is not None


def test_release_of_a_cluster_stack_release_is_fetched(clients: Clients, made: Any) -> None:
    made(CLUSTER_STACK_RELEASE, TAG, spec={})
    assert "fetched" in request_fetch(clients).message


def test_forged_timer_events_do_not_multiply_work(
    clients: Clients, made: Any, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(CLUSTER, "demand")
    with EventReceiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        for number in range(20):
            event = Event(type=PING, source="/anybody", id=str(number), data={"everything": True})
            assert catalog.handler("sweep")(clients, event).status == 204
        sent = [event for _, event, _ in receiver.received if event.namespace == namespace]
    assert len(sent) == 1
    odd = Event(type=PING, source="/anybody", id="1", data={"kind": ["Secret"]})
    assert catalog.handler("sweep")(clients, odd).status == 400


def test_forged_timer_events_do_not_read_storage_repeatedly(clients: Clients, management: Client) -> None:
    event = Event(type=PING, source="/anybody", id="1", data={"everything": True})
    prune = catalog.handler("release_prune")
    assert prune(clients, event).status == 204
    before = management.requests
    assert [prune(clients, event).status for _ in range(20)] == [204] * 20
    assert management.requests == before


def test_failure_that_a_killed_fetch_left_behind_is_deleted(clients: Clients, made: Any) -> None:
    """The process was killed after it had stored the release."""
    made(CLUSTER_STACK_RELEASE, TAG, spec={})
    request_fetch(clients)
    clients.releases.record_failure(TAG, "the source did not answer")
    assert "stored already" in request_fetch(clients).message
    assert clients.releases.last_failure(TAG) is None
