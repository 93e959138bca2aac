"""Functions conclude nothing from a kind that is not served: in this version, not yet, or not at all."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from functions import catalog
from functions.cluster.status import FINALIZER
from functions.cluster_hooks.function import call
from functions.cluster_hooks.protocol import HANDLERS
from infra import local_control_plane
from infra.operations.describe.cluster_objects import gather
from infra.operations.describe.document import document
from shared.api.hooks import BEFORE_CLUSTER_DELETE
from shared.api.names import ADDON_FINALIZER, addon_of
from shared.api.provider import PROVIDER_LABEL
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_STACK_RELEASE,
    DEPLOYMENT,
    EVENT,
    MACHINE,
    SECRET,
    VALIDATING_WEBHOOKS,
)
from shared.clients import Clients
from shared.event import PING, Event, change_event
from shared.kube import Client, Key, Object, Resource, connect, dig, owner_reference
from shared.kube.crds import CRD, await_established
from shared.kube.discovery import Discovery
from shared.references import NOT_ALLOWED, NOT_SERVED
from shared.releases.usage import FINALIZER as RELEASE_FINALIZER
from shared.running_core import find_running_core
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support import objects, provider_releases
from tests.support.api_proxy import Proxy, answering, api_server
from tests.support.planes import running_plane
from tests.support.until import until

NAMESPACE = "default"
KEY = Key(NAMESPACE, "demo")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An API server of this module alone, since its kinds are added and removed."""
    with running_plane(tmp_path_factory.mktemp("kinds") / "management") as folder:
        yield local_control_plane.kubeconfig(folder)


@pytest.fixture
def client(server: Path) -> Iterator[Client]:
    client = connect.from_kubeconfig(str(server))
    yield client
    for resource in (CLUSTER, CLUSTER_ADDON, CLUSTER_STACK_RELEASE):
        for obj in list(client.list(resource, NAMESPACE)):
            objects.remove(client, resource, Key(NAMESPACE, obj["metadata"]["name"]))
    client.close()


@pytest.fixture
def clients(client: Client) -> Clients:
    return Clients(client)


def definition(resource: Resource, *versions: str, scope: str = "Namespaced") -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return objects.manifest(
        CRD,
        f"{resource.plural}.{resource.group}",
        spec={
            "group": resource.group,
            "scope": scope,
            "names": {"kind": resource.kind, "plural": resource.plural},
            "versions": [
                {"name": version, "served": True, "storage": n == 0, "schema": schema}
                for n, version in enumerate(versions or (resource.version,))
            ],
        },
    )


@contextmanager
def defined(client: Client, resource: Resource, *, scope: str = "Namespaced") -> Iterator[None]:
    crd = client.create(CRD, definition(resource, scope=scope))
    try:
        await_established(client, crd["metadata"]["name"])
        until(lambda: objects.is_served(client, resource))
        yield
    finally:
        client.delete(CRD, Key("", crd["metadata"]["name"]))
        until(lambda: not objects.is_served(client, resource))


@contextmanager
def clusters_not_served(client: Client) -> Iterator[None]:
    """The Clusters exist, but the API server serves them in no version that is known here."""
    name = f"{CLUSTER.plural}.{CLUSTER.group}"

    def serve(*, served: bool) -> None:
        crd = client.get(CRD, Key("", name))
        changed = [{**version, "served": served} for version in crd["spec"]["versions"]]
        client.patch(CRD, Key("", name), {"spec": {"versions": changed}})
        until(lambda: objects.is_served(client, CLUSTER) is served)

    serve(served=False)
    try:
        yield
    finally:
        serve(served=True)


def send(clients: Clients, name: str, obj: Object) -> Answer:
    return catalog.handler(name)(clients, change_event(obj, "update", source="/test"))


def cluster(client: Client, *finalizers: str, **spec: object) -> Object:
    metadata = {"finalizers": list(finalizers)}
    return client.create(CLUSTER, objects.manifest(CLUSTER, "demo", NAMESPACE, metadata=metadata, spec=spec))


def deleted(client: Client, resource: Resource, key: Key) -> Object:
    client.delete(resource, key)
    return client.get(resource, key)


def events(client: Client, reason: str) -> list[Object]:
    return [event for event in client.list(EVENT, NAMESPACE) if event["reason"] == reason]


# -- kinds that come later -------------------------------------------------------------------------------------------


def test_deletion_waits_for_machines_of_a_kind_served_later(client: Client, clients: Clients) -> None:
    assert (MACHINE.api_version, MACHINE.kind) not in clients.discovery.served()
    cluster(client, FINALIZER)
    with defined(client, MACHINE):
        labels = {"cluster.x-k8s.io/cluster-name": "demo"}
        client.create(MACHINE, objects.manifest(MACHINE, "m", NAMESPACE, metadata={"labels": labels}))
        send(clients, "cluster", deleted(client, CLUSTER, KEY))
        live = client.get(CLUSTER, KEY)
        assert live["metadata"]["finalizers"] == [FINALIZER]
        assert objects.condition(live, "Deleting")["message"] == "* Worker Machines: m"
        client.delete(MACHINE, Key(NAMESPACE, "m"))
        send(clients, "cluster", live)
    assert client.find(CLUSTER, KEY) is None


def test_machines_are_read_and_deleted_in_the_version_that_is_served(client: Client, clients: Clients) -> None:
    live = cluster(client, FINALIZER)
    older = Resource(MACHINE.group, "v1beta1", MACHINE.kind, MACHINE.plural)
    with defined(client, older):
        metadata = {"labels": {"cluster.x-k8s.io/cluster-name": "demo"}, "ownerReferences": [owner_reference(live)]}
        client.create(older, objects.manifest(older, "m", NAMESPACE, metadata=metadata))
        send(clients, "cluster", client.get(older, Key(NAMESPACE, "m")) | {"spec": {"clusterName": "demo"}})
        assert objects.condition(client.get(CLUSTER, KEY), "WorkerMachinesReady")["reason"] == "ReadyUnknown"
        send(clients, "cluster", deleted(client, CLUSTER, KEY))
        assert objects.condition(client.get(CLUSTER, KEY), "Deleting")["message"] == "* Worker Machines: m"
        assert client.find(older, Key(NAMESPACE, "m")) is None
    send(clients, "cluster", client.get(CLUSTER, KEY))
    assert client.find(CLUSTER, KEY) is None


def test_discovery_never_reports_a_missing_kind_from_cache(client: Client) -> None:
    widget = Resource("later.example.com", "v1", "Widget", "widgets")
    discovery = Discovery(client)
    assert discovery.preferred(widget.group, widget.kind) is None
    with defined(client, widget):
        until(lambda: widget in Discovery(client).served().values())
        assert discovery.preferred(widget.group, widget.kind) == widget
        before = client.requests
        assert discovery.preferred(widget.group, widget.kind) == widget
        assert client.requests == before


# -- Clusters that cannot be read -----------------------------------------------------------------------------------


def test_release_is_kept_while_its_users_are_unknown(client: Client, clients: Clients) -> None:
    key = Key(NAMESPACE, "test-stack-1-36-v1")
    body = objects.manifest(
        CLUSTER_STACK_RELEASE, key.name, NAMESPACE, metadata={"finalizers": [RELEASE_FINALIZER]}, spec={}
    )
    client.create(CLUSTER_STACK_RELEASE, body)
    release = deleted(client, CLUSTER_STACK_RELEASE, key)
    with clusters_not_served(client):
        send(clients, "cluster_stack_release", release)
        live = client.get(CLUSTER_STACK_RELEASE, key)
        condition = objects.condition(live, "HelmChartDeleted")
        assert condition["reason"] == "ClustersNotReadable"
        assert (
            "the API server does not serve it in any version; Cluster API v1.7 or later is needed"
            in condition["message"]
        )
        assert events(client, "ClustersNotReadable")
    send(clients, "cluster_stack_release", live)
    assert client.find(CLUSTER_STACK_RELEASE, key) is None


def test_releases_are_not_pruned_while_their_users_are_unknown(
    client: Client, clients: Clients, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEASE_KEEP_HOURS", "0")
    object_store.put("releases/test-stack-1-36-v1.json", b"{}", if_absent=False)
    timer = Event(type=PING, source="/test", id="1", data={"everything": True})
    with clusters_not_served(client):
        answer = catalog.handler("release_prune")(clients, timer)
        assert answer.status == 503
        assert "Cluster API v1.7 or later is needed" in answer.message
        assert object_store.get("releases/test-stack-1-36-v1.json") is not None


def test_addon_keeps_its_finalizer_while_its_cluster_is_unknown(client: Client, clients: Clients) -> None:
    of = objects.manifest(CLUSTER, "demo", NAMESPACE)
    key = addon_of(of)
    reference = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "name": "demo", "uid": "u"}
    body = objects.manifest(
        CLUSTER_ADDON, key.name, NAMESPACE, metadata={"finalizers": [ADDON_FINALIZER]}, spec={"clusterRef": reference}
    )
    addon = client.create(CLUSTER_ADDON, body)
    with clusters_not_served(client):
        assert send(clients, "addon_apply", addon).status == 202
        condition = objects.condition(client.get(CLUSTER_ADDON, key), "ClusterReady")
        assert (condition["status"], condition["severity"]) == ("False", "Error")
        assert "Cluster API v1.7 or later is needed" in condition["message"]
        path = next(handler.path for handler in HANDLERS if handler.hook == BEFORE_CLUSTER_DELETE)
        called = call(clients, path, b'{"cluster": {"metadata": {"name": "demo", "namespace": "default"}}}')
        assert (called.code, called.response["status"]) == (503, "Failure")


def test_sweep_names_kinds_that_it_skips(
    client: Client, clients: Clients, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K_SINK", "http://127.0.0.1:9")
    timer = Event(type=PING, source="/test", id="1")
    log = logging.getLogger("capi-functions")
    log.addHandler(caplog.handler)
    try:
        with clusters_not_served(client):
            assert catalog.handler("sweep")(clients, timer).status == 204
    finally:
        log.removeHandler(caplog.handler)
    assert "the API server does not serve it in any version" in caplog.text


# -- references ------------------------------------------------------------------------------------------------------

INFRA = Resource("infrastructure.cluster.x-k8s.io", "v1", "ToyCluster", "toyclusters")


def to(resource: Resource, name: str = "demo") -> Object:
    return {"infrastructureRef": {"apiGroup": resource.group, "kind": resource.kind, "name": name}}


def test_infrastructure_kind_that_is_not_served_is_a_condition(client: Client, clients: Clients) -> None:
    answer = send(clients, "cluster", cluster(client, **to(INFRA)))
    assert (answer.status, answer.retry_after) == (202, 30.0)
    live = client.get(CLUSTER, KEY)
    condition = objects.condition(live, "InfrastructureReady")
    assert (condition["status"], condition["reason"]) == ("Unknown", NOT_SERVED)
    assert [event["type"] for event in events(client, NOT_SERVED)] == ["Warning"]
    reported_by_describe = json.dumps(document(gather(client, live), datetime.now(UTC)))
    assert "ToyCluster.infrastructure.cluster.x-k8s.io is not served" in reported_by_describe
    # No CRD defines the kind, so there can be nothing to wait for.
    send(clients, "cluster", deleted(client, CLUSTER, KEY))
    assert client.find(CLUSTER, KEY) is None


def test_defined_but_unserved_infrastructure_kind_blocks_the_deletion(client: Client, clients: Clients) -> None:
    name = f"{INFRA.plural}.{INFRA.group}"
    with defined(client, INFRA):
        client.create(INFRA, objects.manifest(INFRA, "demo", NAMESPACE))
        send(clients, "cluster", cluster(client, **to(INFRA)))
        versions = client.get(CRD, Key("", name))["spec"]["versions"]
        off = [{**version, "served": False} for version in versions]
        client.patch(CRD, Key("", name), {"spec": {"versions": off}})
        until(lambda: not objects.is_served(client, INFRA))
        going = deleted(client, CLUSTER, KEY)

        def condition() -> Object:
            send(clients, "cluster", going)
            return objects.condition(client.get(CLUSTER, KEY), "Deleting")

        until(lambda: condition()["reason"] == NOT_SERVED)
        assert "continues once the kind is served, or its CRD is deleted" in condition()["message"]
        client.patch(CRD, Key("", name), {"spec": {"versions": versions}})
        until(lambda: objects.is_served(client, INFRA))
        until(lambda: send(clients, "cluster", going) and client.find(CLUSTER, KEY) is None)
        assert client.find(INFRA, KEY) is None


def test_class_that_cannot_be_read_does_not_hold_up_a_deletion(server: Path, client: Client) -> None:
    cluster(client, FINALIZER, topology={"classRef": {"name": "c"}, "version": "v1.36.3"})
    live = deleted(client, CLUSTER, KEY)
    with Proxy(api_server(server)) as proxy:
        proxy.fail(answering(500), lambda request: "/clusterclasses/" in request.path)
        send(Clients(connect.workload(proxy.kubeconfig).once()), "cluster", live)
        assert any("/clusterclasses/" in request.path for request in proxy.seen)
    assert client.find(CLUSTER, KEY) is None


@pytest.mark.parametrize("scope", ["Cluster", "built-in"])
def test_reference_to_a_kind_of_no_provider_is_refused(client: Client, clients: Clients, scope: str) -> None:
    if scope == "built-in":
        secret = client.create(SECRET, objects.secret("mine", NAMESPACE, key="value"))
        reference = {"infrastructureRef": {"apiVersion": "v1", "kind": "Secret", "name": "mine"}}
        refused(client, clients, reference)
        assert client.get(SECRET, Key(NAMESPACE, "mine"))["metadata"]["uid"] == secret["metadata"]["uid"]
        client.delete(SECRET, Key(NAMESPACE, "mine"))
        return
    wide = Resource(INFRA.group, "v1", "WideCluster", "wideclusters", namespaced=False)
    with defined(client, wide, scope="Cluster"):
        client.create(wide, objects.manifest(wide, "demo"))
        refused(client, clients, to(wide))
        assert client.get(wide, Key("", "demo"))["metadata"].get("ownerReferences") is None


def refused(client: Client, clients: Clients, spec: Object) -> None:
    send(clients, "cluster", cluster(client, **spec))
    condition = objects.condition(client.get(CLUSTER, KEY), "InfrastructureReady")
    assert (condition["status"], condition["reason"]) == ("False", NOT_ALLOWED)
    send(clients, "cluster", deleted(client, CLUSTER, KEY))
    assert client.find(CLUSTER, KEY) is None


def test_infrastructure_of_another_cluster_is_not_deleted(client: Client, clients: Clients) -> None:
    other = objects.manifest(CLUSTER, "other", NAMESPACE, spec=to(INFRA))
    with defined(client, INFRA):
        client.create(INFRA, objects.manifest(INFRA, "demo", NAMESPACE))
        send(clients, "cluster", client.create(CLUSTER, other))
        refused(client, clients, to(INFRA))
        [owner] = client.get(INFRA, KEY)["metadata"]["ownerReferences"]
        assert owner["name"] == "other"
        objects.remove(client, CLUSTER, Key(NAMESPACE, "other"))


# -- beside Cluster API core -----------------------------------------------------------------------------------------


def status(client: Client, *conditions: Object) -> Object:
    return client.patch(CLUSTER, KEY, {"status": {"conditions": list(conditions)}}, subresource="status")


def seen_by_core(obj: Object) -> Object:
    """The condition that core's topology controller writes."""
    return {
        "type": "TopologyReconciled",
        "status": "False",
        "reason": "Deleting",
        "message": "Cluster is deleting. Following hooks are blocking delete: cluster-hooks",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": obj["metadata"]["generation"],
    }


def test_addons_stay_until_core_allows_the_deletion(client: Client, clients: Clients) -> None:
    live = cluster(client, FINALIZER, topology={"classRef": {"name": "test-stack-1-36-v1"}})
    send(clients, "addon_create", live)
    status(client, seen_by_core(live))
    addon = addon_of(live)
    send(clients, "cluster", deleted(client, CLUSTER, KEY))
    assert not dig(client.get(CLUSTER_ADDON, addon), "metadata.deletionTimestamp"), "core may see it in a moment"
    going = client.get(CLUSTER, KEY)
    assert objects.condition(going, "Deleting")["reason"] == "WaitingForClusterAPI"
    going = status(client, seen_by_core(going))
    version = going["metadata"]["resourceVersion"]
    answer = send(clients, "cluster", going)
    assert (answer.status, answer.retry_after) == (202, 5.0)
    assert not dig(client.get(CLUSTER_ADDON, addon), "metadata.deletionTimestamp")
    assert client.get(CLUSTER, KEY)["metadata"]["resourceVersion"] == version, "the status is core's"
    annotations = {"runtime.cluster.x-k8s.io/ok-to-delete": ""}
    going = client.patch(CLUSTER, KEY, {"metadata": {"annotations": annotations}})
    send(clients, "cluster", going)
    assert dig(client.get(CLUSTER_ADDON, addon), "metadata.deletionTimestamp")


def test_changed_spec_is_left_to_a_recently_live_core(client: Client, clients: Clients) -> None:
    with defined(client, INFRA):
        client.create(INFRA, objects.manifest(INFRA, "demo", NAMESPACE))
        live = cluster(client, **to(INFRA))
        status(client, seen_by_core(live))
        edit = {"spec": {"clusterNetwork": {"serviceDomain": "other"}}}
        changed = client.patch(CLUSTER, KEY, edit, manager="kubectl-edit")
        assert changed["metadata"]["generation"] == 2
        answers = [send(clients, "cluster", changed) for _ in range(2)]
        assert {(answer.status, answer.retry_after) for answer in answers} == {(202, 30.0)}
        assert client.get(CLUSTER, KEY)["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]
        assert not dig(client.get(INFRA, KEY), "metadata.ownerReferences")
        assert not events(client, "ClusterAPIGone")
        objects.remove(client, CLUSTER, KEY)


def test_new_cluster_is_left_to_a_core_that_runs(client: Client) -> None:
    """A Cluster that nobody has reconciled shows nothing of core: its Deployment and its webhooks do.

    A Deployment of a tenant with the label of a core, in a namespace without webhooks, switches nothing off.
    """
    spec = provider_releases.deployment("capi", "v1")["spec"]
    core = objects.manifest(DEPLOYMENT, "capi", NAMESPACE, spec=spec)
    core["metadata"]["labels"] = {PROVIDER_LABEL: "cluster-api"}
    name = Key(NAMESPACE, "capi")
    client.create(DEPLOYMENT, core)
    try:
        running = {"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}}
        client.patch(DEPLOYMENT, name, running, subresource="status")
        new = objects.manifest(CLUSTER, "demo", NAMESPACE, spec=to(INFRA))
        created = client.apply(CLUSTER, new, manager="kubectl")
        assert find_running_core(client) == ""
        client.create(VALIDATING_WEBHOOKS, objects.webhooks_of("cluster-api", NAMESPACE))
        answer = send(Clients(client), "cluster", created)
        assert (answer.status, answer.retry_after) == (202, 30.0)
        assert client.get(CLUSTER, KEY)["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    finally:
        client.delete(DEPLOYMENT, name)
        client.delete(VALIDATING_WEBHOOKS, Key("", "cluster-api"))
    send(Clients(client), "cluster", created)
    assert objects.condition(client.get(CLUSTER, KEY), "InfrastructureReady")
    objects.remove(client, CLUSTER, KEY)


def test_takeover_from_core_records_one_event(client: Client, clients: Clients) -> None:
    """In the last ten minutes only functions wrote to the Cluster."""
    with defined(client, INFRA):
        client.create(INFRA, objects.manifest(INFRA, "demo", NAMESPACE))
        live = cluster(client, **to(INFRA))
        status(client, seen_by_core(live))
        for domain in ("one", "two"):
            changed = client.patch(CLUSTER, KEY, {"spec": {"clusterNetwork": {"serviceDomain": domain}}})
            send(clients, "cluster", changed)
            send(clients, "cluster", changed)
            condition = objects.condition(client.get(CLUSTER, KEY), "InfrastructureReady")
            assert condition["observedGeneration"] == changed["metadata"]["generation"]
        [event] = events(client, "ClusterAPIGone")
        assert event["count"] == 1
        objects.remove(client, CLUSTER, KEY)


def test_owner_reference_set_by_core_is_not_changed(client: Client, clients: Clients) -> None:
    """Core sets `blockOwnerDeletion` and another API version."""
    with defined(client, INFRA):
        client.create(INFRA, objects.manifest(INFRA, "demo", NAMESPACE))
        live = cluster(client, **to(INFRA))
        send(clients, "cluster", live)
        [owner] = client.get(INFRA, KEY)["metadata"]["ownerReferences"]
        theirs = {**owner, "apiVersion": "cluster.x-k8s.io/v1beta1", "controller": True, "blockOwnerDeletion": True}
        written = client.patch(INFRA, KEY, {"metadata": {"ownerReferences": [theirs]}})
        send(clients, "cluster", client.get(CLUSTER, KEY))
        assert client.get(INFRA, KEY)["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]
        objects.remove(client, CLUSTER, KEY)
