"""Clean-up of load balancers and volumes before a Cluster is deleted, on a workload API server of its own.

The tests act as the cloud's controllers, which remove finalizers and delete volumes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from functions.addon_cleanup.leftovers import CLAIM, VOLUME
from functions.cluster_hooks.function import call
from functions.cluster_hooks.protocol import HANDLERS
from infra import local_control_plane
from shared.api.hooks import BEFORE_CLUSTER_DELETE, CLEANED_UP
from shared.api.resources import CLUSTER, CLUSTER_ADDON, DEPLOYMENT, EVENT, NAMESPACE, NODE, POD, SECRET, SERVICE
from shared.event import change_event
from shared.kube import ApiError, Client, Key, Object, Resource, connect, dig
from shared.runtime import Answer
from tests.support.accounts import as_account
from tests.support.planes import running_plane
from tests.support.releases import write_release
from tests.support.until import until
from tests.support.world import World

STATEFUL_SET = Resource("apps", "v1", "StatefulSet", "statefulsets")
REPLICA_SET = Resource("apps", "v1", "ReplicaSet", "replicasets")
_RBAC = "rbac.authorization.k8s.io"
ROLE = Resource(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
BINDING = Resource(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
HELD_BY_CLOUD = "service.kubernetes.io/load-balancer-cleanup"
[PATH] = [handler.path for handler in HANDLERS if handler.hook == BEFORE_CLUSTER_DELETE]


@pytest.fixture(scope="module")
def workload_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with running_plane(tmp_path_factory.mktemp("workload") / "workload", groups=()) as folder:
        yield folder


class Cloud:
    """The workload cluster, with the actions of its cloud's controllers."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def create(self, resource: Resource, name: str, owner: Object | None = None, **content: Any) -> Object:
        metadata: Object = {"name": name, **({"namespace": "default"} if resource.namespaced else {})}
        if owner is not None:
            about = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
            metadata["ownerReferences"] = [about | {"uid": owner["metadata"]["uid"], "controller": True}]
        metadata |= content.pop("metadata", {})
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
        return self.client.create(resource, body)

    def service(self, name: str, type_: str = "LoadBalancer") -> None:
        held = {"metadata": {"finalizers": [HELD_BY_CLOUD]}} if type_ == "LoadBalancer" else {}
        self.create(SERVICE, name, spec={"type": type_, "ports": [{"port": 80}]}, **held)

    def volume(self, name: str, *, policy: str = "Delete", claim: str = "") -> None:
        """Creates a volume, and the claim that it was provisioned for, if named."""
        size = {"storage": "1Gi"}
        spec: Object = {"capacity": size, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
        spec["persistentVolumeReclaimPolicy"] = policy
        spec |= {"claimRef": {"namespace": "default", "name": claim}} if claim else {}
        self.create(VOLUME, name, spec=spec)
        if claim:
            self.claim(claim, name)

    def claim(self, name: str, volume: str = "") -> None:
        spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        self.create(CLAIM, name, spec=spec | ({"volumeName": volume} if volume else {}))

    def pod(self, name: str, *volumes: Object, owner: Object | None = None) -> None:
        spec = {"containers": [{"name": "c", "image": "i"}], "volumes": list(volumes)}
        self.create(POD, name, owner, spec=spec)

    def controller(self, resource: Resource, name: str, owner: Object | None = None) -> Object:
        template = {"metadata": {"labels": {"a": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec: Object = {"selector": {"matchLabels": {"a": name}}, "template": template}
        if resource == STATEFUL_SET:
            spec["serviceName"] = name
        return self.create(resource, name, owner, spec=spec)

    def names(self, resource: Resource, *, deleting: bool | None = None) -> list[str]:
        found = self.client.list(resource, "default" if resource.namespaced else "")
        wanted = [o for o in found if deleting is None or deleting == ("deletionTimestamp" in o["metadata"])]
        return sorted(o["metadata"]["name"] for o in wanted if o["metadata"]["name"] != "kubernetes")

    def remove_finalizers(self) -> None:
        """Removes all finalizers of deleted objects, and deletes volumes with their claims."""
        for resource in (SERVICE, CLAIM, POD):
            for obj in list(self.client.list(resource, "default")):
                if "deletionTimestamp" in obj["metadata"]:
                    self.release(resource, obj)
        claims = self.names(CLAIM)
        for volume in list(self.client.list(VOLUME)):
            claim = dig(volume, "spec.claimRef.name")
            if claim and claim not in claims and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
                self.client.delete(VOLUME, Key("", volume["metadata"]["name"]))
                self.release(VOLUME, volume)

    def release(self, resource: Resource, obj: Object) -> None:
        key = Key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        if self.client.find(resource, key) is not None:
            self.client.patch(resource, key, {"metadata": {"finalizers": None}})

    def empty(self) -> None:
        for resource in (SERVICE, POD, CLAIM, VOLUME, STATEFUL_SET, DEPLOYMENT, REPLICA_SET, NODE):
            for obj in list(self.client.list(resource, "default" if resource.namespaced else "")):
                if obj["metadata"]["name"] != "kubernetes":
                    self.client.delete(resource, Key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))
                    self.release(resource, obj)


@pytest.fixture
def cloud(workload_plane: Path) -> Iterator[Cloud]:
    client = connect.from_kubeconfig(str(local_control_plane.kubeconfig(workload_plane)))
    cloud = Cloud(client)
    yield cloud
    cloud.empty()
    client.close()


@pytest.fixture
def deleted_cluster(world: World, cloud: Cloud, workload_plane: Path) -> World:
    """A Cluster with addons that is being deleted, and that a finalizer keeps."""
    world.kubeconfig = local_control_plane.kubeconfig(workload_plane).read_bytes()
    world.secret()
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.namespace}}
    cloud.client.create(NAMESPACE, namespace)
    assert world.settle().status == 204
    delete_cluster(world)
    return world


def delete_cluster(world: World) -> None:
    key = Key(world.namespace, "demo")
    world.client.patch(CLUSTER, key, {"metadata": {"finalizers": ["test.dev/hold"]}})
    world.client.delete(CLUSTER, key)


def hook(world: World) -> int:
    """Calls the hook as Cluster API does; returns the seconds until the next call, 0 to continue."""
    cluster = world.client.get(CLUSTER, Key(world.namespace, "demo"))
    called = call(world.clients, PATH, json.dumps({"cluster": cluster}).encode())
    assert called.code == 200, called.answer.message
    return int(called.response["retryAfterSeconds"])


def clean(world: World) -> Answer:
    return world.call("addon_cleanup", change_event(world.addon(), "update", source="/test"))


def done(world: World) -> str:
    return str(world.condition(CLEANED_UP)["status"])


def claimed(name: str) -> Object:
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}


def test_cleanup_is_done_at_once_without_leftovers(deleted_cluster: World) -> None:
    assert hook(deleted_cluster) == 10
    assert clean(deleted_cluster).status == 204
    assert done(deleted_cluster) == "True"
    assert hook(deleted_cluster) == 0
    version = deleted_cluster.addon()["metadata"]["resourceVersion"]
    assert clean(deleted_cluster).status == 204
    assert deleted_cluster.addon()["metadata"]["resourceVersion"] == version


def test_load_balancers_and_volumes_are_deleted_and_waited_for(deleted_cluster: World, cloud: Cloud) -> None:
    cloud.service("public")
    cloud.service("inner", "ClusterIP")
    cloud.volume("disk", claim="data")
    cloud.volume("archive", policy="Retain", claim="kept")
    cloud.volume("spare")
    hook(deleted_cluster)
    answer = clean(deleted_cluster)
    assert (answer.status, answer.retry_after) == (202, 5.0)
    assert cloud.names(SERVICE, deleting=True) == ["public"]
    assert cloud.names(CLAIM, deleting=True) == ["data"]
    condition = deleted_cluster.condition(CLEANED_UP)
    assert (condition["status"], condition["reason"]) == ("False", "CleanupOngoing")
    for name in ("Service default/public", "PersistentVolumeClaim default/data", "PersistentVolume disk"):
        assert name in condition["message"]
    assert hook(deleted_cluster) == 10
    cloud.remove_finalizers()
    assert clean(deleted_cluster).status == 204
    assert done(deleted_cluster) == "True"
    assert cloud.names(SERVICE) == ["inner"]
    assert cloud.names(CLAIM) == ["kept"]
    assert cloud.names(VOLUME) == ["archive", "spare"]
    assert hook(deleted_cluster) == 0


def test_volume_is_waited_for_after_its_claim_is_gone(deleted_cluster: World, cloud: Cloud) -> None:
    cloud.volume("disk", claim="data")
    hook(deleted_cluster)
    clean(deleted_cluster)
    for claim in list(cloud.client.list(CLAIM, "default")):
        cloud.release(CLAIM, claim)
    assert cloud.names(CLAIM) == []
    assert clean(deleted_cluster).status == 202
    assert deleted_cluster.condition(CLEANED_UP)["message"].endswith("of PersistentVolume disk")
    cloud.remove_finalizers()
    assert clean(deleted_cluster).status == 204


def test_claim_without_a_volume_is_deleted(deleted_cluster: World, cloud: Cloud) -> None:
    cloud.claim("pending")
    hook(deleted_cluster)
    assert clean(deleted_cluster).status == 202
    assert cloud.names(CLAIM, deleting=False) == []


def test_pods_with_claims_are_deleted_with_their_top_controller(deleted_cluster: World, cloud: Cloud) -> None:
    for name in ("a", "b", "c", "d-scratch", "e"):
        cloud.volume(f"disk-{name}", claim=name)
    deployment = cloud.controller(DEPLOYMENT, "web")
    cloud.pod("web-1", claimed("a"), owner=cloud.controller(REPLICA_SET, "web-1", deployment))
    cloud.pod("db-0", claimed("b"), owner=cloud.controller(STATEFUL_SET, "db"))
    cloud.pod("alone", claimed("c"))
    cloud.pod("d", {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": _template()}}})
    node = cloud.create(NODE, "node-1")
    cloud.pod("on-node", claimed("e"), owner=node)
    cloud.pod("other", {"name": "none", "emptyDir": {}}, owner=cloud.controller(STATEFUL_SET, "driver"))
    hook(deleted_cluster)
    assert clean(deleted_cluster).status == 202
    assert cloud.names(POD, deleting=False) == ["other"]
    assert cloud.names(STATEFUL_SET) == ["driver"], "what holds no volume stays: it may be what lets volumes go"
    assert cloud.names(DEPLOYMENT) == []
    assert cloud.names(NODE) == ["node-1"]
    cloud.remove_finalizers()
    assert clean(deleted_cluster).status == 204


def _template() -> Object:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def test_recreated_load_balancer_is_deleted_again(deleted_cluster: World, cloud: Cloud) -> None:
    cloud.service("public")
    hook(deleted_cluster)
    clean(deleted_cluster)
    cloud.remove_finalizers()
    cloud.service("public")
    assert clean(deleted_cluster).status == 202
    assert cloud.names(SERVICE, deleting=True) == ["public"]


def test_cleanup_starts_only_by_a_hook(deleted_cluster: World, cloud: Cloud) -> None:
    cloud.service("public")
    assert clean(deleted_cluster).message == "the event is not for this function"
    cluster = deleted_cluster.client.get(CLUSTER, Key(deleted_cluster.namespace, "demo"))
    assert (
        deleted_cluster.call("addon_cleanup", change_event(cluster, "update", source="/test")).outcome == "reconciled"
    )
    assert cloud.names(SERVICE, deleting=True) == []


def test_cluster_that_is_not_being_deleted_is_not_cleaned_up(world: World, cloud: Cloud, workload_plane: Path) -> None:
    """Anyone who reaches the hooks can send any request."""
    world.kubeconfig = local_control_plane.kubeconfig(workload_plane).read_bytes()
    world.secret()
    world.cluster("test-stack-1-36-v1")
    world.settle()
    cloud.service("public")
    assert hook(world) == 10
    assert not world.addon()["spec"].get("hook")
    # Also the clean-up itself checks that the Cluster is being deleted.
    world.client.patch(CLUSTER_ADDON, world.addon_key, {"spec": {"hook": BEFORE_CLUSTER_DELETE}})
    assert clean(world).status == 204
    assert cloud.names(SERVICE, deleting=True) == []
    assert CLEANED_UP not in str(world.addon()["status"])


@pytest.mark.parametrize("annotation", ["capi-functions.dev/cleanup", "cluster.x-k8s.io/paused"])
def test_annotation_prevents_the_cleanup(deleted_cluster: World, cloud: Cloud, annotation: str) -> None:
    cloud.service("public")
    hook(deleted_cluster)
    patch = {"metadata": {"annotations": {annotation: "false"}}}
    deleted_cluster.client.patch(CLUSTER, Key(deleted_cluster.namespace, "demo"), patch)
    assert clean(deleted_cluster).status == 204
    assert cloud.names(SERVICE, deleting=True) == []
    assert hook(deleted_cluster) == (0 if annotation.startswith("capi-functions") else 10)


def test_cleanup_of_an_earlier_cluster_of_the_same_name_is_ignored(deleted_cluster: World, cloud: Cloud) -> None:
    cloud.service("public")
    hook(deleted_cluster)
    patch = {"spec": {"clusterRef": {**deleted_cluster.addon()["spec"]["clusterRef"], "uid": "of-an-earlier-one"}}}
    deleted_cluster.client.patch(CLUSTER_ADDON, deleted_cluster.addon_key, patch)
    assert clean(deleted_cluster).status == 204
    assert cloud.names(SERVICE, deleting=True) == []
    assert hook(deleted_cluster) == 0


@pytest.mark.parametrize("how", ["no Secret", "no server"])
def test_unreachable_workload_cluster_is_reported_and_given_up_at_the_deadline(
    deleted_cluster: World, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "no server":
        document = yaml.safe_load(deleted_cluster.kubeconfig)
        document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
        deleted_cluster.secret(yaml.safe_dump(document).encode())
    else:
        deleted_cluster.client.delete(SECRET, Key(deleted_cluster.namespace, "demo-kubeconfig"))
    hook(deleted_cluster)
    answer = clean(deleted_cluster)
    assert (answer.status, answer.retry_after) == (202, 10.0)
    assert deleted_cluster.condition(CLEANED_UP)["reason"] == "WorkloadUnreachable"
    monkeypatch.setenv("HOOK_DELETE_SECONDS", "0")
    for _ in range(2):
        assert clean(deleted_cluster).status == 204
    condition = deleted_cluster.condition(CLEANED_UP)
    assert (condition["status"], condition["reason"]) == ("False", "CleanupGivenUp")
    assert "delete the remaining objects in the cloud by hand" in condition["message"]
    recorded = [
        event
        for event in deleted_cluster.client.list(EVENT, deleted_cluster.namespace)
        if event["reason"] == "CleanupGivenUp"
    ]
    assert [event["type"] for event in recorded] == ["Warning"]
    assert hook(deleted_cluster) == 0


def test_workload_cluster_that_becomes_reachable_is_cleaned_up(deleted_cluster: World, cloud: Cloud) -> None:
    cloud.service("public")
    deleted_cluster.secret(b"no kubeconfig")
    hook(deleted_cluster)
    assert clean(deleted_cluster).retry_after == 10.0
    deleted_cluster.secret()
    assert clean(deleted_cluster).retry_after == 5.0
    assert cloud.names(SERVICE, deleting=True) == ["public"]


def test_rejected_deletion_is_reported(deleted_cluster: World, cloud: Cloud, workload_plane: Path) -> None:
    cloud.service("public")
    deleted_cluster.secret(reader(cloud, workload_plane))
    hook(deleted_cluster)
    answer = clean(deleted_cluster)
    assert (answer.status, answer.retry_after) == (202, 10.0)
    condition = deleted_cluster.condition(CLEANED_UP)
    assert (condition["reason"], condition["severity"]) == ("CleanupFailed", "Error")
    assert "Service default/public" in condition["message"]
    assert "forbidden" in condition["message"]
    version = deleted_cluster.addon()["metadata"]["resourceVersion"]
    clean(deleted_cluster)
    assert deleted_cluster.addon()["metadata"]["resourceVersion"] == version, (
        "the same failure again is not written again"
    )
    deleted_cluster.secret()
    assert clean(deleted_cluster).retry_after == 5.0


def reader(cloud: Cloud, plane: Path) -> bytes:
    """Returns a kubeconfig with read rights only."""
    role = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reader"},
        "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]},
            {"nonResourceURLs": ["*"], "verbs": ["get"]},
        ],
    }
    cloud.client.apply(ROLE, role, manager="t")
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": "reader"}],
    }
    cloud.client.apply(BINDING, binding, manager="t")
    pair = local_control_plane.load_ca(plane).issue("reader")
    document = yaml.safe_load(local_control_plane.kubeconfig(plane).read_bytes())
    document["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(pair.cert_pem).decode(),
        "client-key-data": base64.b64encode(pair.key_pem).decode(),
    }
    kubeconfig = yaml.safe_dump(document).encode()
    client = connect.workload(kubeconfig)
    await_reader(client)
    client.close()
    return kubeconfig


def await_reader(client: Client) -> None:
    """Waits until the authorizer knows the role."""

    def may_read() -> bool:
        try:
            list(client.list(SERVICE))
        except ApiError:
            return False
        return True

    until(may_read, "the rights")


def test_rights_of_the_generated_role_are_enough(deleted_cluster: World, cloud: Cloud, kubeconfig: Path) -> None:
    cloud.service("public")
    hook(deleted_cluster)
    may = ("clusterstack.x-k8s.io", "clusteraddons", "get")
    deleted_cluster.clients = as_account(deleted_cluster.client, kubeconfig, "base/function-addon-cleanup.yaml", may)
    assert clean(deleted_cluster).status == 202
    cloud.remove_finalizers()
    assert clean(deleted_cluster).status == 204
    assert done(deleted_cluster) == "True"
