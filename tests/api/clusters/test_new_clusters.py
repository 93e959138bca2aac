"""New Clusters: functions that write the same object cause no conflicts, and a stale decision overwrites nothing."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from events.delivery import InProcessDelivery
from events.forwarder import Forwarder
from functions import catalog
from infra import local_control_plane
from shared.api.conditions import get_condition, is_true
from shared.api.resources import CLUSTER, KIND_CLUSTER, SECRET
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Client, Conflict, Key, Object, connect, dig
from tests.support import objects
from tests.support.until import until

NAMES = [f"c{number}" for number in range(8)]


@pytest.fixture
def refused(kubeconfig: Path, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Conflict]]:
    """Runs the functions and records the conflicts of their writes."""
    conflicts: list[Conflict] = []
    client = connect.from_kubeconfig(str(kubeconfig))
    send = client.request

    def request(*arguments: Any, **options: Any) -> Object:
        try:
            return send(*arguments, **options)
        except Conflict as error:
            conflicts.append(error)
            raise

    monkeypatch.setattr(client, "request", request)
    triggers = {name: catalog.triggers()[name] for name in ("cluster", "kubeconfig")}
    deliver = InProcessDelivery(catalog.handler, Clients(client))
    forwarder = Forwarder(client, triggers, deliver, namespace=namespace)
    forwarder.start()
    assert forwarder.wait_synced(60)
    yield conflicts
    forwarder.stop()
    client.close()


def ready(client: Client, namespace: str, plane: Path, names: Sequence[str] = NAMES) -> None:
    """Reports the status that `kind_cluster` writes for each of them once its API server runs."""
    ca = local_control_plane.load_ca(plane)
    for name in names:
        key = Key(namespace, name)
        secret = objects.secret(f"{name}-ca", namespace, **{"tls.crt": ca.cert_pem, "tls.key": ca.key_pem})
        secret["metadata"]["labels"] = {"cluster.x-k8s.io/cluster-name": name}
        client.create(SECRET, secret)
        client.patch(KIND_CLUSTER, key, {"spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}})
        status = {"ready": True, "phase": "Ready", "initialization": {"provisioned": True}}
        client.patch(KIND_CLUSTER, key, {"status": status}, subresource="status")


class Delayed:
    """A replica of the functions: `meanwhile` is called once, between its decision and its write of a status."""

    def __init__(self, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
        self.refused: list[str] = []
        self.client = connect.from_kubeconfig(str(kubeconfig))
        send, left = self.client.request, [meanwhile]

        def request(method: str, path: str, **options: Any) -> Object:
            if method == "PATCH" and path.endswith("/status") and left:
                left.pop()()
            try:
                return send(method, path, **options)
            except Conflict:
                self.refused.append(f"{method} {path.rpartition('/')[2]}")
                raise

        monkeypatch.setattr(self.client, "request", request)


@pytest.mark.parametrize(
    ("name", "condition"), [("cluster", "InfrastructureReady"), ("kubeconfig", "KubeconfigAvailable")]
)
def test_stale_decision_does_not_overwrite_a_newer_one(
    management: Client,
    clients: Clients,
    kubeconfig: Path,
    namespace: str,
    plane: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    condition: str,
) -> None:
    """A decision from before the API server ran is written after that of another replica which saw it run."""
    objects.create_local_cluster(management, NAMES[0], namespace)
    if name == "kubeconfig":
        endpoint = {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}
        management.patch(CLUSTER, Key(namespace, NAMES[0]), {"spec": endpoint})
        reconcile("cluster", clients, namespace)

    def newer() -> None:
        ready(management, namespace, plane, NAMES[:1])
        reconcile(name, clients, namespace)
        assert is_true(dig(cluster(management, namespace), "status.conditions"), condition)

    delayed = Delayed(kubeconfig, monkeypatch, newer)
    reconcile(name, Clients(delayed.client), namespace)
    found = cluster(management, namespace)
    assert is_true(dig(found, "status.conditions"), condition)
    assert dig(found, "status.phase") == ("Provisioned" if name == "cluster" else "Provisioning")
    assert delayed.refused == ["PATCH status"]
    delayed.client.close()


def test_functions_keep_the_conditions_of_each_other(
    management: Client,
    clients: Clients,
    kubeconfig: Path,
    namespace: str,
    plane: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects.create_local_cluster(management, NAMES[0], namespace)
    reconcile("cluster", clients, namespace)
    ready(management, namespace, plane, NAMES[:1])

    def meanwhile() -> None:
        reconcile("kubeconfig", clients, namespace)

    delayed = Delayed(kubeconfig, monkeypatch, meanwhile)
    reconcile("cluster", Clients(delayed.client), namespace)
    reconcile("kubeconfig", clients, namespace)
    conditions = dig(cluster(management, namespace), "status.conditions")
    assert is_true(conditions, "InfrastructureReady")
    assert is_true(conditions, "KubeconfigAvailable")
    delayed.client.close()


def cluster(client: Client, namespace: str) -> Object:
    return client.get(CLUSTER, Key(namespace, NAMES[0]))


def reconcile(name: str, clients: Clients, namespace: str) -> None:
    """Sends the function a reference to the first Cluster, as the sweep does."""
    event = change_event(cluster(clients.management, namespace), "update", source="/test", reference=True)
    answer = catalog.handler(name)(clients, event)
    assert answer.status in (202, 204), answer


def test_new_cluster_causes_no_conflict(
    management: Client, namespace: str, plane: Path, refused: list[Conflict]
) -> None:
    def cluster(name: str) -> Object:
        return management.get(CLUSTER, Key(namespace, name))

    def through(name: str) -> bool:
        conditions = dig(cluster(name), "status.conditions")
        return is_true(conditions, "InfrastructureReady") and is_true(conditions, "KubeconfigAvailable")

    for name in NAMES:
        objects.create_local_cluster(management, name, namespace)
    until(lambda: all(get_condition(dig(cluster(name), "status.conditions"), "InfrastructureReady") for name in NAMES))
    ready(management, namespace, plane)
    until(lambda: all(through(name) for name in NAMES))
    for name in NAMES:
        found = cluster(name)
        assert dig(found, "status.phase") == "Provisioned"
        assert dig(found, "status.observedGeneration") == dig(found, "metadata.generation")
        kubeconfig = management.get(SECRET, Key(namespace, f"{name}-kubeconfig"))
        assert base64.b64decode(kubeconfig["data"]["value"])
    assert [str(error) for error in refused] == []


def test_new_cluster_with_known_endpoint_causes_no_conflict(
    management: Client, namespace: str, refused: list[Conflict]
) -> None:
    spec = {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}
    for name in NAMES:
        management.create(CLUSTER, objects.manifest(CLUSTER, name, namespace, spec=spec))

    def condition(name: str) -> Object | None:
        conditions = dig(management.get(CLUSTER, Key(namespace, name)), "status.conditions")
        return get_condition(conditions, "KubeconfigAvailable")

    until(lambda: all((condition(name) or {}).get("reason") == "WaitingForCA" for name in NAMES))
    assert [str(error) for error in refused] == []
