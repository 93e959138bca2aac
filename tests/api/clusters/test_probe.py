"""The remote connection of a Cluster: a dead workload cluster costs little, and other credentials are used at once."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from functions import catalog
from shared.api.conditions import rfc3339, set_condition
from shared.api.resources import CLUSTER, SECRET
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Client, Key, Object, dig
from shared.runtime import Answer
from tests.support import objects
from tests.support.ports import free_port


def reconcile(clients: Clients, key: Key, *, repeated: bool = False) -> Answer:
    event = change_event(clients.management.get(CLUSTER, key), "update", source="/test")
    return catalog.handler("cluster")(clients, replace(event, repeated=repeated))


def probe(client: Client, key: Key) -> Object:
    return objects.condition(client.get(CLUSTER, key), "RemoteConnectionProbe")


def set_conditions(client: Client, key: Key, **conditions: tuple[str, str, str]) -> None:
    listed = dig(client.get(CLUSTER, key), "status.conditions", [])
    for type_, (status, reason, message) in conditions.items():
        listed = set_condition(listed, type_, status, reason, message, now=datetime.now(UTC), observed_generation=1)
    client.patch(CLUSTER, key, {"status": {"conditions": listed}}, subresource="status")


def test_dead_cluster_costs_little_and_rotated_credentials_are_used(
    management: Client, clients: Clients, kubeconfig: Path, namespace: str
) -> None:
    key, live = Key(namespace, "demo"), kubeconfig.read_bytes()
    endpoint = {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}
    management.create(CLUSTER, objects.manifest(CLUSTER, key.name, key.namespace, spec=endpoint))
    dead = live.replace(management.host.encode(), f"https://127.0.0.1:{free_port()}".encode())
    management.create(SECRET, objects.secret("demo-kubeconfig", key.namespace, value=dead))
    assert reconcile(clients, key).retry_after is None, "there is no kubeconfig yet"
    set_conditions(management, key, KubeconfigAvailable=("True", "Generated", ""))

    before = management.requests
    assert reconcile(clients, key).retry_after == 10.0
    assert management.requests - before == 1 + 3, "Cluster, Secret and status"
    failed = probe(management, key)
    assert (failed["status"], failed["reason"]) == ("False", "ProbeFailed")
    assert failed["message"].startswith("Remote connection not established yet (attempt 1 at ")
    before = management.requests
    answer = reconcile(clients, key)
    assert answer.status == 202, "an update ends the wait for the next attempt, so it begins again"
    assert 0 < (answer.retry_after or 0) <= 10.0
    assert management.requests - before == 1 + 1, "the Cluster: the next attempt is not due"

    management.patch(SECRET, Key(namespace, "demo-kubeconfig"), {"data": {"value": base64.b64encode(live).decode()}})
    hour_ago = rfc3339(datetime.now(UTC) - timedelta(hours=1))
    message = f"Remote connection probe failed (attempt 9 at {hour_ago}, failing since {hour_ago}: refused)"
    set_conditions(management, key, RemoteConnectionProbe=("False", "ProbeFailed", message))
    assert reconcile(clients, key).retry_after is None
    found = management.get(CLUSTER, key)
    assert objects.condition(found, "RemoteConnectionProbe")["status"] == "True"
    assert objects.condition(found, "Available")["status"] == "True"
    assert dig(found, "status.initialization.controlPlaneInitialized") is True
    before = management.requests
    assert reconcile(clients, key).status == 204
    assert management.requests - before == 1, "the test's: a Cluster that answers costs no request"
    assert reconcile(clients, key, repeated=True).status == 204
    assert management.requests - before == 3, "a repetition reads the Cluster, and does not connect"
