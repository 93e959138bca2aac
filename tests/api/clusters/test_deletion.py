"""The deletion of a Cluster reads what is to be deleted when its turn comes, and all of it before the Cluster goes."""

from __future__ import annotations

from dataclasses import replace

from functions import catalog
from shared.api.resources import CLUSTER, CLUSTER_ADDON, KIND_CLUSTER, SECRET
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Client, Key, Object, owner_reference
from shared.runtime import Answer
from tests.support import objects

HELD = {"metadata": {"finalizers": ["example.com/held"]}}
FREE: Object = {"metadata": {"finalizers": None}}


def reconcile(clients: Clients, key: Key) -> Answer:
    event = change_event(clients.management.get(CLUSTER, key), "update", source="/test")
    return catalog.handler("cluster")(clients, replace(event, repeated=True))


def reason(client: Client, key: Key) -> object:
    return objects.condition(client.get(CLUSTER, key), "Deleting")["reason"]


def deleted_cluster(management: Client, clients: Clients, namespace: str) -> Key:
    """Returns the key of a Cluster that waits for its infrastructure object, which is being deleted, to be gone."""
    key = Key(namespace, "demo")
    objects.create_local_cluster(management, *reversed(key))
    reconcile(clients, key)
    management.patch(KIND_CLUSTER, key, HELD)
    management.delete(CLUSTER, key)
    reconcile(clients, key)
    assert reason(management, key) == "WaitingForInfrastructureDeletion"
    return key


def test_wait_for_the_infrastructure_reads_nothing_else(management: Client, clients: Clients, namespace: str) -> None:
    key = deleted_cluster(management, clients, namespace)
    before = management.requests
    assert reconcile(clients, key).retry_after == 5.0
    assert management.requests - before == 1 + 2, "the test's; the Cluster and its KINDCluster"


def test_what_appears_during_the_deletion_goes_before_the_cluster(
    management: Client, clients: Clients, namespace: str
) -> None:
    key = deleted_cluster(management, clients, namespace)
    owner = {"ownerReferences": [owner_reference(management.get(CLUSTER, key))]}
    addon = objects.manifest(CLUSTER_ADDON, "late", namespace, metadata=owner, spec={"clusterRef": {"name": "demo"}})
    management.create(CLUSTER_ADDON, {**addon, "metadata": addon["metadata"] | HELD["metadata"]})
    for name, owned in (("late", owner), ("ca", {})):
        secret = objects.secret(f"demo-{name}", namespace)
        secret["metadata"] |= owned | {"labels": {"cluster.x-k8s.io/cluster-name": "demo"}}
        management.create(SECRET, secret)

    management.patch(KIND_CLUSTER, key, FREE)
    reconcile(clients, key)
    assert reason(management, key) == "WaitingForWorkersDeletion"
    assert management.find(SECRET, Key(namespace, "demo-late")), "a kubeconfig is needed while addons are removed"
    management.patch(CLUSTER_ADDON, Key(namespace, "late"), FREE)
    reconcile(clients, key)
    assert management.find(CLUSTER, key) is None
    left = [secret["metadata"]["name"] for secret in management.list(SECRET, namespace)]
    assert left == ["demo-ca"], "what the Cluster does not own stays"


def test_change_of_the_spec_while_the_infrastructure_goes_is_observed(
    management: Client, clients: Clients, namespace: str
) -> None:
    key = deleted_cluster(management, clients, namespace)
    management.patch(CLUSTER, key, {"spec": {"availabilityGates": [{"conditionType": "Backup"}]}})
    assert reconcile(clients, key).retry_after == 5.0
    found = management.get(CLUSTER, key)
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
