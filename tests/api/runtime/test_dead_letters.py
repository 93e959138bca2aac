"""Dead letters on a real API server, by a function with no more than its rights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from events.delivery import InProcessDelivery
from events.forwarder import Forwarder
from functions import catalog
from shared.api.resources import CLUSTER, EVENT, SECRET
from shared.clients import Clients
from shared.dead_letters import FUNCTION, DeadLetters
from shared.event import DeliveryFailure, Event, change_event, own_event
from shared.kube import Client, Key, Object
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support.accounts import as_function
from tests.support.objects import manifest, secret
from tests.support.until import until


def outcome(name: str) -> float:
    return REGISTRY.get_sample_value("capi_functions_dead_letters_total", {"outcome": name}) or 0.0


def kubernetes_events(client: Client, namespace: str) -> list[tuple[str, str, int]]:
    found = client.list(EVENT, namespace)
    return [(event["reason"], event["involvedObject"]["uid"], event["count"]) for event in found]


def handle(clients: Clients, event: Event) -> Answer:
    return catalog.handler(FUNCTION)(clients, event)


def unhandled(obj: Object) -> Event:
    failure = DeliveryFailure("http://addon-apply.capi-functions.svc.cluster.local/", 500, "a bug\n")
    return replace(change_event(obj, "update", source="/test"), failure=failure)


@pytest.fixture
def cluster(management: Client, namespace: str) -> Object:
    return management.create(CLUSTER, manifest(CLUSTER, "demo", namespace, spec={"topology": {}}))


def test_rejected_event_becomes_a_letter_and_one_kubernetes_event(
    management: Client, kubeconfig: Path, namespace: str, cluster: Object, object_store: ObjectStore
) -> None:
    """From a function that rejects it, through the forwarder."""
    triggers = catalog.triggers()
    names = ("release_assets", FUNCTION)
    deliver = InProcessDelivery(catalog.handler, as_function(management, kubeconfig, FUNCTION))
    forwarder = Forwarder(management, {name: triggers[name] for name in names}, deliver)
    letters, before = DeadLetters(object_store), outcome("kept")
    try:
        for count in (1, 2):
            data = {"release": "not a release", "namespace": namespace}
            event = own_event("release.wanted", source="/test", subject="x", about=cluster, data=data)
            assert forwarder.dispatcher.submit(event) == 1
            until(lambda: sum(one.count for one in letters.list()) == count, "the letter")  # noqa: B023 - called here
    finally:
        forwarder.stop(drain=60.0)
    [letter] = letters.list()
    assert (letter.function, letter.status) == ("release_assets", 400)
    assert letter.event.data["metadata"]["name"] == "demo"
    assert "not a release" in letter.reason
    assert kubernetes_events(management, namespace) == [("EventNotHandled", cluster["metadata"]["uid"], 2)]
    assert outcome("kept") - before == 2


def test_object_that_is_not_reconciled_here_or_does_not_exist_gets_no_event(
    management: Client, kubeconfig: Path, namespace: str, object_store: ObjectStore
) -> None:
    clients = as_function(management, kubeconfig, FUNCTION)
    made = management.create(SECRET, secret("demo-kubeconfig", namespace, value="hunter2-hunter2"))
    gone = manifest(CLUSTER, "gone", namespace, spec={})
    for obj in (made, gone):
        assert handle(clients, unhandled(obj)).status == 204
    assert kubernetes_events(management, namespace) == []
    stored = [object_store.get(key) or b"" for key in object_store.list()]
    assert len(stored) == 2
    assert not [data for data in stored if b"hunter2" in data or made["data"]["value"].encode() in data]


def test_letter_is_lost_without_an_object_store_and_the_kubernetes_event_is_not(
    management: Client, kubeconfig: Path, namespace: str, cluster: Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S3_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    before = outcome("lost")
    answer = handle(as_function(management, kubeconfig, FUNCTION), unhandled(cluster))
    assert (answer.status, answer.message.partition(":")[0]) == (204, "lost")
    assert kubernetes_events(management, namespace) == [("EventNotHandled", cluster["metadata"]["uid"], 1)]
    assert outcome("lost") - before == 1


def test_hint_of_a_letter_changes_nothing_where_there_is_nothing_to_do(
    management: Client, namespace: str, cluster: Object, object_store: ObjectStore
) -> None:
    """An event of an hour ago: meanwhile the Cluster was paused."""
    clients = Clients(management)
    assert handle(clients, unhandled(cluster)).status == 204
    [letter] = DeadLetters(object_store).list()
    key = Key(namespace, "demo")
    paused = management.patch(CLUSTER, key, {"spec": {"paused": True}})
    hint = letter.hint()
    assert hint is not None
    for name in ("addon_create", "kubeconfig"):
        assert catalog.handler(name)(clients, hint).status == 204
    assert management.get(CLUSTER, key)["metadata"]["resourceVersion"] == paused["metadata"]["resourceVersion"]
