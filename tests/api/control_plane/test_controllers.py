"""What a control plane with controllers is for: objects come to be ready, and go with what they belong to."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import local_control_plane
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, DAEMON_SET, DEPLOYMENT, NAMESPACE, POD
from shared.applier.readiness import unready_reason
from shared.kube import Client, Key, Object, Resource, dig
from tests.support.controllers import JOB, PENDING, STATEFUL_SET, workload
from tests.support.releases import config_map
from tests.support.until import until

SERVICE_ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")


@pytest.fixture
def kubeconfig(plane_with_controllers: Path) -> Path:
    return local_control_plane.kubeconfig(plane_with_controllers)


def pods(client: Client, namespace: str) -> list[Object]:
    return list(client.list(POD, namespace))


def available(deployment: Object) -> bool:
    conditions = dig(deployment, "status.conditions", [])
    return any(found["type"] == "Available" and found["status"] == "True" for found in conditions)


def test_a_deployment_becomes_available(management: Client, namespace: str) -> None:
    key = Key(namespace, "web")
    management.create(DEPLOYMENT, workload(DEPLOYMENT, "web", namespace, replicas=3))
    until(lambda: available(management.get(DEPLOYMENT, key)), "Available")
    until(lambda: dig(management.get(DEPLOYMENT, key), "status.readyReplicas") == 3, "three replicas")
    found = pods(management, namespace)
    assert {dig(pod, "status.phase") for pod in found} == {"Running"}
    assert {dig(pod, "spec.serviceAccountName") for pod in found} == {"default"}
    assert all(dig(pod, "spec.nodeName") and dig(pod, "status.podIP") for pod in found)


def test_a_pod_that_is_to_stay_pending(management: Client, namespace: str) -> None:
    """And with it a Deployment that is seen, but not Available until its template is another."""
    key = Key(namespace, "web")
    management.create(DEPLOYMENT, workload(DEPLOYMENT, "web", namespace, PENDING))
    until(lambda: any(dig(pod, "spec.nodeName") for pod in pods(management, namespace)), "a pod with a node")
    # A Deployment whose pods are not counted yet has a reason of its own.
    unavailable = "0 of 1 replicas available"
    until(lambda: unavailable in unready_reason(management.get(DEPLOYMENT, key)), "an unavailable replica")
    assert dig(management.get(DEPLOYMENT, key), "status.unavailableReplicas") == 1
    unlabelled = {"spec": {"template": {"metadata": {"labels": dict.fromkeys(PENDING)}}}}
    management.patch(DEPLOYMENT, key, unlabelled)
    until(lambda: not unready_reason(management.get(DEPLOYMENT, key)), "ready")


@pytest.mark.parametrize("resource", [STATEFUL_SET, DAEMON_SET, JOB], ids=lambda resource: str(resource.kind))
def test_other_workloads_become_ready(resource: Resource, management: Client, namespace: str) -> None:
    management.create(resource, workload(resource, "w", namespace))
    until(lambda: not unready_reason(management.get(resource, Key(namespace, "w"))), "ready")
    assert len(pods(management, namespace)) == (2 if resource == DAEMON_SET else 1)


def test_what_belongs_to_an_object_goes_with_it(management: Client, namespace: str) -> None:
    """Also where both are of our kinds."""
    cluster = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "metadata": {"name": "c", "namespace": namespace}}
    created = management.apply(CLUSTER, {**cluster, "spec": {"paused": True}}, manager="user")
    owner = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "name": "c", "uid": created["metadata"]["uid"]}
    metadata = {"namespace": namespace, "ownerReferences": [owner]}
    management.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "name": "owned"}})
    addon = {"apiVersion": CLUSTER_ADDON.api_version, "kind": "ClusterAddon", "metadata": {**metadata, "name": "owned"}}
    management.create(CLUSTER_ADDON, addon)
    management.create(CONFIG_MAP, config_map("free", "1", namespace))
    management.delete(CLUSTER, Key(namespace, "c"))
    owned = Key(namespace, "owned")
    until(lambda: not any(management.find(kind, owned) for kind in (CONFIG_MAP, CLUSTER_ADDON)), "both gone")
    assert management.find(CONFIG_MAP, Key(namespace, "free"))


def test_pods_of_a_deployment_go_with_it(management: Client, namespace: str) -> None:
    management.create(DEPLOYMENT, workload(DEPLOYMENT, "web", namespace))
    until(lambda: pods(management, namespace), "a pod")
    management.delete(DEPLOYMENT, Key(namespace, "web"))
    until(lambda: not pods(management, namespace), "no pod")


def test_a_namespace_ends(management: Client, namespace: str) -> None:
    until(lambda: management.find(SERVICE_ACCOUNT, Key(namespace, "default")), "a service account")
    management.create(DEPLOYMENT, workload(DEPLOYMENT, "web", namespace))
    held = {"name": "held", "namespace": namespace, "finalizers": ["example.com/hold"]}
    management.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    management.delete(NAMESPACE, Key("", namespace))
    until(lambda: not pods(management, namespace) and not list(management.list(DEPLOYMENT, namespace)), "empty")
    assert dig(management.get(NAMESPACE, Key("", namespace)), "status.phase") == "Terminating"
    management.patch(CONFIG_MAP, Key(namespace, "held"), {"metadata": {"finalizers": None}})
    until(lambda: management.find(NAMESPACE, Key("", namespace)) is None, "the namespace gone")
