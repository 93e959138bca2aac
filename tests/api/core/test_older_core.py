"""Management clusters that serve v1beta1 only, with the unmodified CRDs of Cluster API 1.7 and 1.10.

The CRDs of 1.7 are the oldest that are supported. Those of 1.10 also have a place for the conditions of v1beta2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from events.watcher import Watcher
from functions import catalog
from infra.cli.commands.sources import served_watches
from infra.local import crds
from infra.local_control_plane import kubeconfig
from infra.local_control_plane.modules import MODULES
from shared.api.cluster import KUBECONFIG_AVAILABLE
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_CLASS, MACHINE, MACHINE_DEPLOYMENT
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import Client, Key, NotServed, Object, Resource, connect, dig, owner_reference
from shared.kube.crds import CRD
from shared.kube.discovery import Discovery
from shared.runtime import Answer
from tests.support import objects
from tests.support.planes import running_plane
from tests.support.until import until

NAMESPACE = "default"
KEY = Key(NAMESPACE, "demo")
INFRA = Resource("infrastructure.cluster.x-k8s.io", "v1beta1", "CloudCluster", "cloudclusters")
OLDER = Resource(CLUSTER.group, "v1beta1", CLUSTER.kind, CLUSTER.plural)
TIME = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    groups = [CLUSTER_ADDON.group]
    with running_plane(tmp_path_factory.mktemp("older") / "management", groups=groups) as folder:
        client = connect.from_kubeconfig(str(kubeconfig(folder)))
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        spec = {
            "group": INFRA.group,
            "scope": "Namespaced",
            "names": {"kind": INFRA.kind, "plural": INFRA.plural},
            "versions": [{"name": INFRA.version, "served": True, "storage": True, "schema": schema}],
        }
        labels = {"labels": {"cluster.x-k8s.io/v1beta1": INFRA.version}}
        crds.install(client, [objects.manifest(CRD, f"{INFRA.plural}.{INFRA.group}", metadata=labels, spec=spec)])
        yield client
        client.close()


@pytest.fixture(scope="module", params=["capi-1.7", "capi-1.10"])
def release(server: Client, request: pytest.FixtureRequest) -> str:
    """Installs the CRDs of a release; those of the second one upgrade those of the first."""
    [module] = [module for module in MODULES if module.directory == request.param]
    bases = module.source(module.module, print) / "config/crd/bases"
    definitions = []
    for resource in (CLUSTER, CLUSTER_CLASS, MACHINE, MACHINE_DEPLOYMENT):
        definition = yaml.safe_load((bases / f"{resource.group}_{resource.plural}.yaml").read_text())
        served = [version for version in definition["spec"]["versions"] if version["served"]]
        assert [version["name"] for version in served] == ["v1beta1"]
        definitions.append({**definition, "spec": {**definition["spec"], "versions": served}})
    crds.install(server, definitions)
    return str(request.param)


@pytest.fixture
def client(server: Client, release: str) -> Iterator[Client]:
    yield server
    for resource in (CLUSTER, CLUSTER_ADDON, INFRA, MACHINE_DEPLOYMENT):
        for obj in list(server.list(resource, NAMESPACE)):
            objects.remove(server, resource, Key(NAMESPACE, obj["metadata"]["name"]))


@pytest.fixture
def clients(client: Client) -> Clients:
    return Clients(client)


def raw(client: Client) -> Object:
    """Returns the Cluster as the server stores it, and as an ApiServerSource sends it."""
    return client.get(OLDER, KEY)


def create(client: Client, **spec: Any) -> Object:
    return client.create(OLDER, objects.manifest(OLDER, "demo", NAMESPACE, spec=spec))


def create_with_infrastructure(client: Client, **status: Any) -> None:
    endpoint = {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}
    client.create(INFRA, objects.manifest(INFRA, "demo", NAMESPACE, spec=endpoint, status={"ready": True, **status}))
    reference = {"apiVersion": INFRA.api_version, "kind": INFRA.kind, "name": "demo"}
    create(client, infrastructureRef=reference)


def send(clients: Clients, name: str, obj: Object, change: Any = "update") -> Answer:
    return catalog.handler(name)(clients, change_event(obj, change, source="/test"))


def version(client: Client) -> str:
    return str(raw(client)["metadata"]["resourceVersion"])


def test_cluster_is_provisioned_and_then_left_alone(client: Client, clients: Clients, release: str) -> None:
    create_with_infrastructure(client, failureDomains={"a": {"controlPlane": True}})
    theirs = {"type": "TheirCheck", "status": "False", "severity": "Error", "reason": "Bad", "lastTransitionTime": TIME}
    client.patch(OLDER, KEY, {"status": {"conditions": [theirs]}}, subresource="status", manager="theirs")
    for _ in range(4):
        send(clients, "cluster", raw(client))
    found = raw(client)
    status = found["status"]
    assert theirs in status["conditions"]
    assert (status["phase"], status["infrastructureReady"]) == ("Provisioned", True)
    assert status["failureDomains"] == {"a": {"controlPlane": True}}
    assert found["spec"]["controlPlaneEndpoint"] == {"host": "127.0.0.1", "port": 6443}
    ready = objects.condition({"status": status.get("v1beta2", status)}, "InfrastructureReady")
    assert (ready["status"], "observedGeneration" in ready) == ("True", release == "capi-1.10")
    [owner] = client.get(INFRA, KEY)["metadata"]["ownerReferences"]
    assert owner["apiVersion"] == "cluster.x-k8s.io/v1beta1", "garbage collection needs a version that is served"

    before = version(client)
    for obj in (found, client.get(CLUSTER, KEY)):  # as an ApiServerSource and as the forwarder send it
        requests = client.requests
        assert send(clients, "cluster", obj).status == 204
        assert client.requests == requests
    assert version(client) == before

    client.patch(INFRA, KEY, {"status": {"failureDomains": {"b": {}, "a": None}}})
    send(clients, "cluster", client.get(INFRA, KEY))
    assert raw(client)["status"]["failureDomains"].keys() == {"b"}


def test_reference_to_another_namespace_is_looked_for_in_that_of_the_cluster(client: Client, clients: Clients) -> None:
    """Cluster API's webhook refuses it; without that webhook, objects of others are left alone."""
    theirs = Key("kube-public", "demo")
    client.create(INFRA, objects.manifest(INFRA, theirs.name, theirs.namespace, status={"ready": True}))
    reference = {"apiVersion": INFRA.api_version, "kind": INFRA.kind, "name": "demo", "namespace": theirs.namespace}
    create(client, infrastructureRef=reference)
    for _ in range(2):
        send(clients, "cluster", raw(client))
    status = raw(client)["status"]
    ready = objects.condition({"status": status.get("v1beta2", status)}, "InfrastructureReady")
    assert (ready["status"], ready["reason"]) == ("False", "ObjectDoesNotExist")
    client.delete(CLUSTER, KEY)
    send(clients, "cluster", raw(client))
    assert client.find(CLUSTER, KEY) is None
    left = client.get(INFRA, theirs)
    assert not {"ownerReferences", "labels", "deletionTimestamp"} & left["metadata"].keys()
    client.delete(INFRA, theirs)


def test_deletion_waits_for_machine_deployments(client: Client, clients: Clients) -> None:
    create_with_infrastructure(client)
    send(clients, "cluster", raw(client))
    send(clients, "cluster", raw(client))
    labels = {"cluster.x-k8s.io/cluster-name": "demo"}
    template = {"spec": {"clusterName": "demo", "bootstrap": {}, "infrastructureRef": {}}}
    spec = {"clusterName": "demo", "selector": {}, "template": template}
    owners = [owner_reference(raw(client))]
    metadata = {"labels": labels, "finalizers": ["example.dev/wait"], "ownerReferences": owners}
    older = Resource(CLUSTER.group, "v1beta1", MACHINE_DEPLOYMENT.kind, MACHINE_DEPLOYMENT.plural)
    client.create(older, objects.manifest(older, "md", NAMESPACE, metadata=metadata, spec=spec))
    for _ in range(2):
        send(clients, "cluster", raw(client))
    before = version(client)
    send(clients, "cluster", raw(client))
    assert version(client) == before, "what a release has no place for is not written again and again"
    client.delete(CLUSTER, KEY)
    send(clients, "cluster", raw(client))
    assert dig(client.get(older, Key(NAMESPACE, "md")), "metadata.deletionTimestamp")
    assert client.find(INFRA, KEY) is not None
    objects.remove(client, older, Key(NAMESPACE, "md"))
    for _ in range(3):
        if client.find(CLUSTER, KEY) is not None:
            send(clients, "cluster", raw(client))
    assert client.find(CLUSTER, KEY) is None
    assert client.find(INFRA, KEY) is None


def test_cluster_with_500_machines_is_reported_and_deleted(client: Client, clients: Clients) -> None:
    create_with_infrastructure(client)
    for _ in range(2):
        send(clients, "cluster", raw(client))
    owner, labels = owner_reference(raw(client)), {"cluster.x-k8s.io/cluster-name": "demo"}
    older = Resource(CLUSTER.group, "v1beta1", MACHINE.kind, MACHINE.plural)
    spec = {"clusterName": "demo", "bootstrap": {}, "infrastructureRef": {}}
    metadata = {"labels": labels, "ownerReferences": [owner]}
    for number in range(500):
        client.create(older, objects.manifest(older, f"m{number:03}", NAMESPACE, metadata=metadata, spec=spec))
    requests = client.requests
    send(clients, "cluster", client.get(older, Key(NAMESPACE, "m000")))
    assert client.requests - requests < 20, "machines are listed, not read one by one"
    client.delete(CLUSTER, KEY)
    send(clients, "cluster", raw(client))
    assert "Machines: m000, m001, m002, m003, m004, ... (495 more)" in str(raw(client)["status"])
    for _ in range(5):
        if client.find(CLUSTER, KEY) is not None:
            send(clients, "cluster", raw(client))
    assert list(client.list(older, NAMESPACE)) == []
    assert client.find(CLUSTER, KEY) is None


def test_conditions_of_core_stay_as_they_are(client: Client, clients: Clients, release: str) -> None:
    """Beside a live core, `kubeconfig` adds its own condition only."""
    create(client, controlPlaneEndpoint={"host": "127.0.0.1", "port": 6443})
    ready = {
        "type": "Ready",
        "status": "False",
        "severity": "Error",
        "reason": "Broken",
        "message": "m",
        "lastTransitionTime": TIME,
    }
    status: Object = {
        "phase": "Provisioned",
        "observedGeneration": 1,
        "infrastructureReady": True,
        "conditions": [ready],
    }
    available = {"type": "Available", "status": "False", "reason": "NotAvailable", "message": "m"}
    if release == "capi-1.10":
        status["v1beta2"] = {"conditions": [available | {"lastTransitionTime": TIME, "observedGeneration": 1}]}
    client.patch(OLDER, KEY, {"status": status}, subresource="status", manager="manager")
    send(clients, "kubeconfig", raw(client))
    found = raw(client)["status"]
    assert ready in found["conditions"]
    conditions = dig(found, "v1beta2.conditions", []) if release == "capi-1.10" else found["conditions"]
    assert {condition["type"] for condition in conditions} == (
        {"Available", KUBECONFIG_AVAILABLE} if release == "capi-1.10" else {"Ready", KUBECONFIG_AVAILABLE}
    )
    before = version(client)
    send(clients, "kubeconfig", raw(client))
    assert version(client) == before


def test_addons_belong_to_the_cluster_in_its_version(client: Client, clients: Clients) -> None:
    cluster = create(client, topology={"class": "docker-ferrol-1-27-v1", "version": "v1.27.3"})
    send(clients, "addon_create", cluster, "add")
    addon = client.get(CLUSTER_ADDON, addon_of(cluster))
    assert dig(addon, "spec.clusterRef.apiVersion") == "cluster.x-k8s.io/v1beta1"
    assert [owner["apiVersion"] for owner in addon["metadata"]["ownerReferences"]] == ["cluster.x-k8s.io/v1beta1"]
    assert send(clients, "addon_apply", addon).status in (200, 202, 204)
    assert (
        objects.condition(client.get(CLUSTER_ADDON, addon_of(cluster)), "ClusterReady")["reason"]
        != "ClusterNotReadable"
    )


def test_forwarder_sends_clusters_in_their_version(client: Client) -> None:
    seen: list[Event] = []
    triggers = {name: catalog.triggers()[name] for name in ("cluster", "kubeconfig")}
    watcher = Watcher(client, triggers, lambda event, _functions: seen.append(event))
    watcher.start()
    try:
        assert watcher.wait_synced(60)
        create(client)
        until(lambda: [event for event in seen if event.kind == CLUSTER.kind])
    finally:
        watcher.stop()
    assert {event.api_version for event in seen if event.kind == CLUSTER.kind} == {"cluster.x-k8s.io/v1beta1"}


def test_sources_name_the_version_that_is_served(client: Client) -> None:
    declared = {"cluster": catalog.triggers()["cluster"]}
    served = {watch.resource.kind: watch.resource.version for watch in served_watches(declared, Discovery(client), [])}
    assert served[CLUSTER.kind] == "v1beta1"


@pytest.mark.parametrize("release", ["capi-1.10"], indirect=True)
def test_newer_core_is_used_as_soon_as_the_older_version_is_not_served(client: Client, clients: Clients) -> None:
    """While both versions are served, the server converts; a client that knows the older one may stay with it."""
    create_with_infrastructure(client)
    send(clients, "cluster", raw(client))
    name = f"{CLUSTER.plural}.{CLUSTER.group}"
    definition = client.get(CRD, Key("", name))
    [older] = definition["spec"]["versions"]
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    newer = {**older, "name": "v1beta2", "storage": True, "schema": schema}
    for versions in ([newer, older | {"storage": False}], [newer, older | {"storage": False, "served": False}]):
        client.patch(CRD, Key("", name), {"spec": {"versions": versions}})
        until(lambda: is_served(client, replace(CLUSTER, older=None)))
        before = client.get(CLUSTER, KEY)
        assert send(clients, "cluster", before).status in (202, 204)
    until(lambda: not is_served(client, OLDER))
    assert client.get(CLUSTER, KEY)["apiVersion"] == CLUSTER.api_version


def is_served(client: Client, resource: Resource) -> bool:
    try:
        return client.find(resource, KEY) is not None
    except NotServed:
        return False
