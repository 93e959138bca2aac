"""KINDClusters with the local runtime: real API servers, their certificates, their deletion."""

from __future__ import annotations

import base64
import os
import signal
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from functions import catalog
from functions.kind_cluster.runtime import InstanceSpec
from functions.kind_cluster.triggers import FINALIZER
from infra import local_control_plane
from infra.local.instances import Instances
from infra.local.kind_runtime import LocalRuntime
from infra.local_control_plane import store
from infra.local_control_plane.binaries import EXECUTABLES, locate
from infra.local_control_plane.cache import cache_directory
from shared.api.conditions import get_condition, is_true
from shared.api.resources import CLUSTER, EVENT, KIND_CLUSTER, KIND_CLUSTER_TEMPLATE, SECRET
from shared.certificates import CertificateAuthority
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import ApiError, Client, Key, Object, Unavailable, connect, dig
from shared.runtime import Answer
from shared.semver import Version
from tests.support import objects
from tests.support.until import until

CALLERS = ("kind_cluster", "cluster", "kubeconfig")


class World:
    def __init__(self, client: Client, clients: Clients, namespace: str, data: Path) -> None:
        self.client, self._clients, self.namespace, self.data = client, clients, namespace, data
        self.key = Key(namespace, "demo")

    def create(self, *, with_cluster: bool = True) -> None:
        if with_cluster:
            objects.create_local_cluster(self.client, "demo", self.namespace, kind_name="dev")
        else:
            alone = objects.manifest(KIND_CLUSTER, "demo", self.namespace, spec={"clusterName": "dev"})
            self.client.create(KIND_CLUSTER, alone)

    def kind(self) -> Object:
        return self.client.get(KIND_CLUSTER, self.key)

    def call(self, name: str, event: Event) -> Answer:
        return catalog.handler(name)(self._clients, event)

    def turn(self, *, resync: bool = False) -> None:
        """Calls every function once for each of both objects."""
        for resource in (CLUSTER, KIND_CLUSTER):
            obj = self.client.find(resource, self.key)
            for name in CALLERS if obj else ():
                event = change_event(obj or {}, "update", source="/test")
                answer = self.call(name, replace(event, resync=resync))
                assert answer.status in (202, 204), answer.message

    def until(self, reached: Callable[[], object], *, resync: bool = False) -> None:
        turn = partial(self.turn, resync=resync)
        until(reached, between=turn, details=lambda: self.client.find(KIND_CLUSTER, self.key))

    def ready(self) -> bool:
        return dig(self.kind(), "status.ready") is True

    def folder(self) -> Path:
        return self.data / "clusters" / str(self.kind()["metadata"]["uid"])


@pytest.fixture
def world(
    management: Client, clients: Clients, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    monkeypatch.setenv("CAPI_FUNCTIONS_DATA", str(tmp_path))
    monkeypatch.setenv("CAPI_FUNCTIONS_OWNER", str(os.getpid()))
    yield World(management, clients, namespace, tmp_path)
    for folder in (tmp_path / "clusters").glob("*/"):
        local_control_plane.remove(folder)


def test_lifecycle_from_creation_to_deletion(world: World) -> None:
    world.create()
    world.until(lambda: world.ready() and world.client.find(SECRET, Key(world.namespace, "demo-kubeconfig")))
    world.turn()
    # The contract: endpoint and readiness on the infrastructure, mirrored on the Cluster, its owner reference set.
    kind, cluster = world.kind(), world.client.get(CLUSTER, world.key)
    assert cluster["spec"]["controlPlaneEndpoint"] == kind["spec"]["controlPlaneEndpoint"]
    assert dig(cluster, "status.initialization.infrastructureProvisioned") is True
    assert dig(cluster, "status.phase") == "Provisioned"
    assert kind["metadata"]["ownerReferences"][0]["uid"] == cluster["metadata"]["uid"]
    ready, paused, entry = kind["status"]["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "Provisioned")
    assert (paused["type"], paused["status"]) == ("Paused", "False")
    assert get_condition(cluster["status"]["conditions"], "InfrastructureReady")["status"] == "True"  # type: ignore[index]
    assert entry["message"] == "Cluster was successfully created"
    # Readers of conditions need these three, whatever they look for.
    assert (entry["type"], entry["status"]) == ("ClusterCreated", "True")
    assert entry["lastTransitionTime"] == entry["timestamp"]
    # The client certificate that we minted is accepted, and is an administrator's.
    secret = world.client.get(SECRET, Key(world.namespace, "demo-kubeconfig"))
    minted = connect.workload(base64.b64decode(secret["data"]["value"]))
    review: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    who = minted.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)
    assert who["status"]["userInfo"]["username"] == "kubernetes-admin"
    assert "system:masters" in who["status"]["userInfo"]["groups"]
    # The CA in the Secret is the server's, and the KINDCluster's own kubeconfig works too.
    ca = world.client.get(SECRET, Key(world.namespace, "demo-ca"))
    assert base64.b64decode(ca["data"]["tls.crt"]) == local_control_plane.load_ca(world.folder()).cert_pem
    config = world.client.get(SECRET, Key(world.namespace, "dev-config"))
    assert connect.workload(base64.b64decode(config["data"]["config"])).text("/readyz")
    # Nothing more to do: one read each and no write.
    versions = [obj["metadata"]["resourceVersion"] for obj in (world.kind(), world.client.get(CLUSTER, world.key))]
    before = world.client.requests
    world.turn()
    assert world.client.requests - before <= 2 + 2 * len(CALLERS)
    assert versions == [o["metadata"]["resourceVersion"] for o in (world.kind(), world.client.get(CLUSTER, world.key))]

    folder = world.folder()
    world.client.delete(CLUSTER, world.key)
    world.until(lambda: world.client.find(CLUSTER, world.key) is None)
    assert world.client.find(KIND_CLUSTER, world.key) is None
    assert list(world.client.list(SECRET, world.namespace)) == []
    assert not folder.exists()
    with pytest.raises(Unavailable):
        minted.text("/readyz", timeout=1.0)


def test_user_provided_ca_is_used(world: World) -> None:
    ca = CertificateAuthority.generate("mine")
    data = {"tls.crt": ca.cert_pem, "tls.key": ca.key_pem}
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": "dev-ca", "namespace": world.namespace},
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }
    world.client.create(SECRET, secret)
    world.create(with_cluster=False)
    world.until(world.ready)
    assert local_control_plane.load_ca(world.folder()).cert_pem == ca.cert_pem
    world.client.delete(KIND_CLUSTER, world.key)
    world.until(lambda: world.client.find(KIND_CLUSTER, world.key) is None)
    assert [s["metadata"]["name"] for s in world.client.list(SECRET, world.namespace)] == ["dev-ca"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"nodes": [{"role": "worker"}]}, "spec.nodes cannot change"),
        ({"networking": {"podSubnet": "10.1.0.0/16"}}, "spec.networking cannot change"),
        ({"image": "another"}, "spec.image cannot change"),
        ({"featureGates": {"X": True}}, "spec.featureGates cannot change"),
        ({"runtimeConfig": {"api/alpha": "true"}}, "spec.runtimeConfig cannot change"),
        (
            {"kubeadmConfigPatchesJSON6902": [{"kind": "ClusterConfiguration", "patch": "[]"}]},
            "spec.kubeadmConfigPatchesJSON6902 cannot change",
        ),
        ({"containerdConfigPatchesJSON6902": ["[]"]}, "spec.containerdConfigPatchesJSON6902 cannot change"),
        ({"endpointAccess": "Network"}, "spec.endpointAccess cannot change"),
        ({"kubernetesVersion": "1.36"}, ""),
        ({"controlPlaneEndpoint": {"host": "h", "port": 1}}, ""),
    ],
)
def test_what_a_cluster_was_created_with_is_fixed_once_it_runs(world: World, spec: Object, message: str) -> None:
    world.create(with_cluster=False)
    before = world.client.patch(KIND_CLUSTER, world.key, {"spec": {"image": "x", "networking": {"podSubnet": "aa"}}})
    assert world.client.patch(KIND_CLUSTER, world.key, {"spec": {"image": None, "networking": None}})["spec"] != before
    provisioned = {"status": {"initialization": {"provisioned": True}}}
    world.client.patch(KIND_CLUSTER, world.key, provisioned, subresource="status")
    if not message:
        world.client.patch(KIND_CLUSTER, world.key, {"spec": spec})
        return
    with pytest.raises(ApiError, match=message):
        world.client.patch(KIND_CLUSTER, world.key, {"spec": spec})


@pytest.mark.parametrize("field", ["clusterName", "runtime"])
def test_what_an_instance_is_found_by_is_fixed_from_the_start(world: World, field: str) -> None:
    """Containers of the former name, or of the former runtime, would be left behind."""
    world.create(with_cluster=False)
    with pytest.raises(ApiError, match=f"spec.{field} cannot change: delete the KINDCluster"):
        world.client.patch(KIND_CLUSTER, world.key, {"spec": {field: "kind"}})


def test_installed_version_of_the_requested_minor_runs_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executables of the version are scripts that run the usual ones."""
    usual = {name: f'#!/bin/sh\nexec "{path}" "$@"\n' for name, path in locate(EXECUTABLES, progress=print).items()}
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "binaries").symlink_to(cache_directory() / "binaries")
    monkeypatch.setenv("CAPI_FUNCTIONS_CACHE", str(tmp_path / "cache"))
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        for name, script in usual.items():
            archive.writestr(name, script)
    store.sideload(Version(1, 35, 1), tmp_path / "archive", progress=print)
    runtime = LocalRuntime(tmp_path / "clusters", os.getpid())
    spec = InstanceSpec("uid", "dev", {"kubernetesVersion": "1.35"})
    runtime.create(spec, None)
    try:
        until(lambda: runtime.inspect(spec).phase == "ready", "ready", details=lambda: runtime.inspect(spec))
        assert runtime.inspect(spec).version == "v1.35.1"
        local_control_plane.stop(tmp_path / "clusters" / "uid")
        store.sideload(Version(1, 34, 9), tmp_path / "archive", progress=print)
        runtime.create(replace(spec, fields={"kubernetesVersion": "1.34"}), None)
        until(lambda: runtime.inspect(spec).phase == "ready", "ready", details=lambda: runtime.inspect(spec))
        assert runtime.inspect(spec).version == "v1.35.1"
    finally:
        runtime.delete(spec)


def test_template_needs_no_cluster_name_and_does_not_change(world: World) -> None:
    def template(**spec: object) -> Object:
        body = {"template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}
        return objects.manifest(KIND_CLUSTER_TEMPLATE, "local", world.namespace, spec=body)

    given = template(runtime="local", nodes=[{"role": "worker"}])
    assert world.client.create(KIND_CLUSTER_TEMPLATE, given)["spec"] == given["spec"]
    for changed in (template(runtime="kind", nodes=[{"role": "worker"}]), template(runtime="nothing")):
        with pytest.raises(ApiError, match=r"spec.template.spec cannot change|Unsupported value"):
            world.client.apply(KIND_CLUSTER_TEMPLATE, changed, manager="user", force=True)


def test_runtime_that_is_not_allowed_creates_nothing_and_keeps_nothing(world: World) -> None:
    alone = objects.manifest(KIND_CLUSTER, "demo", world.namespace, spec={"clusterName": "dev", "runtime": "kind"})
    world.client.create(KIND_CLUSTER, alone)
    world.call("kind_cluster", change_event(world.kind(), "add", source="/test"))
    ready = get_condition(world.kind()["status"]["conditions"], "Ready") or {}
    assert (ready["status"], ready["reason"]) == ("False", "RuntimeNotAllowed")
    assert not (world.data / "kind").exists()
    world.client.delete(KIND_CLUSTER, world.key)
    world.until(lambda: world.client.find(KIND_CLUSTER, world.key) is None)


@pytest.mark.parametrize(
    ("finalizers", "reasons"), [([], ["RuntimeNotAllowed"]), ([FINALIZER], [])], ids=["new", "served elsewhere"]
)
def test_functions_that_create_nothing_say_so_and_leave_what_others_created(
    world: World, monkeypatch: pytest.MonkeyPatch, finalizers: list[str], reasons: list[str]
) -> None:
    monkeypatch.setenv("KIND_RUNTIME", "none")
    alone = objects.manifest(KIND_CLUSTER, "demo", world.namespace, spec={"clusterName": "dev"})
    alone["metadata"]["finalizers"] = finalizers
    world.client.create(KIND_CLUSTER, alone)
    for change in ("add", "update"):
        world.call("kind_cluster", change_event(world.kind(), change, source="/test"))
    kind = world.kind()
    assert dig(kind, "metadata.finalizers", []) == finalizers
    conditions = dig(kind, "status.conditions", [])
    assert [entry["reason"] for entry in conditions if entry["type"] == "Ready"] == reasons
    events = [event for event in world.client.list(EVENT, world.namespace) if event["reason"] == "ClusterNotCreated"]
    assert [(event["type"], event.get("count", 1)) for event in events] == [("Warning", 1)] * len(reasons)
    world.client.delete(KIND_CLUSTER, world.key)
    if finalizers:
        world.call("kind_cluster", change_event(world.kind(), "update", source="/test"))
        assert dig(world.kind(), "metadata.finalizers") == finalizers, "only who created the cluster can delete it"
        world.client.patch(KIND_CLUSTER, world.key, {"metadata": {"finalizers": None}})
    assert world.client.find(KIND_CLUSTER, world.key) is None


def test_killed_instance_restarts_with_the_same_identity(world: World) -> None:
    world.create()
    world.until(world.ready)
    endpoint = world.kind()["spec"]["controlPlaneEndpoint"]
    pid = local_control_plane.status(world.folder()).pid
    assert pid is not None
    events: list[Event] = []
    runtime = LocalRuntime(world.data / "clusters", None)
    instances = Instances(world.client, events.append, {runtime: 0.02})
    instances.start()
    os.kill(pid, signal.SIGKILL)
    until(lambda: events, details=lambda: local_control_plane.status(world.folder()))
    instances.stop()
    assert [(event.kind, event.key) for event in events] == [("KINDCluster", world.key)]
    assert world.call("kind_cluster", events[0]).retry_after == 0.5
    world.until(lambda: (s := local_control_plane.status(world.folder())).phase == "ready" and s.pid != pid)
    world.until(world.ready)
    assert world.kind()["spec"]["controlPlaneEndpoint"] == endpoint
    config = world.client.get(SECRET, Key(world.namespace, "dev-config"))
    assert connect.workload(base64.b64decode(config["data"]["config"])).text("/readyz")


def test_pod_without_runtime_recommends_another_infrastructure(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    world.create(with_cluster=False)
    world.call("kind_cluster", change_event(world.kind(), "add", source="/test"))
    message = world.kind()["status"]["failureMessage"]
    assert "Use another infrastructure provider for the Cluster" in message
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")


def test_history_of_another_program_gets_condition_fields(world: World) -> None:
    world.create()
    world.until(world.ready)
    theirs = [{"timestamp": "2026-01-01T00:00:00Z", "message": "Cluster cannot be created", "reason": "no room"}]
    world.client.patch(KIND_CLUSTER, world.key, {"status": {"conditions": theirs}}, subresource="status")
    world.turn()
    ready, paused, entry = world.kind()["status"]["conditions"]
    assert (ready["type"], paused["type"]) == ("Ready", "Paused")
    assert entry == {
        **theirs[0],
        "type": "ClusterNotCreated",
        "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize("how", ["spec", "annotation"])
def test_paused_cluster_pauses_its_infrastructure(world: World, how: str) -> None:
    paused: Object = {"spec": {"paused": True}}
    resumed: Object = {"spec": {"paused": None}}
    if how == "annotation":
        paused = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}
        resumed = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}}
    world.create()
    world.client.patch(CLUSTER, world.key, paused)
    world.turn()
    assert "finalizers" not in world.kind()["metadata"]
    assert is_true(world.kind()["status"]["conditions"], "Paused")
    assert not list((world.data / "clusters").glob("*"))
    cluster = world.client.patch(CLUSTER, world.key, resumed)
    # That the Cluster goes on is the only event.
    assert world.call("kind_cluster", change_event(cluster, "update", source="/test")).retry_after == 10.0
    world.until(world.ready)
    world.client.patch(CLUSTER, world.key, paused)
    world.client.delete(KIND_CLUSTER, world.key)
    world.turn()
    assert world.kind()["metadata"]["finalizers"]
    assert world.folder().exists()
    world.client.patch(CLUSTER, world.key, resumed)
    world.until(lambda: world.client.find(KIND_CLUSTER, world.key) is None)


def test_unrelated_paused_cluster_of_the_same_name_is_ignored(world: World) -> None:
    world.create(with_cluster=False)
    world.client.create(CLUSTER, objects.manifest(CLUSTER, "demo", world.namespace, spec={"paused": True}))
    world.call("kind_cluster", change_event(world.kind(), "add", source="/test"))
    assert world.kind()["metadata"]["finalizers"]


def test_unknown_runtime_is_reported_in_status(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIND_RUNTIME", "bogus")
    world.create(with_cluster=False)
    answer = world.call("kind_cluster", change_event(world.kind(), "add", source="/test"))
    assert (answer.status, answer.retry_after) == (202, 10.0)
    assert "KIND_RUNTIME=bogus" in world.kind()["status"]["failureMessage"]
    assert world.kind()["status"]["ready"] is False
    monkeypatch.delenv("KIND_RUNTIME")
    world.call("kind_cluster", change_event(world.kind(), "update", source="/test"))
    status = world.kind()["status"]
    assert (status["phase"], status.get("failureMessage")) == ("Provisioning", None)
    monkeypatch.setenv("KIND_RUNTIME", "bogus")
    world.client.delete(KIND_CLUSTER, world.key)
    world.call("kind_cluster", change_event(world.kind(), "update", source="/test"))
    # Nobody knows what would be left behind: the finalizer stays until the runtime can be asked.
    assert world.kind()["metadata"]["finalizers"]
    monkeypatch.delenv("KIND_RUNTIME")
    world.until(lambda: world.client.find(KIND_CLUSTER, world.key) is None)
