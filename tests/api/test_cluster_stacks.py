"""ClusterStacks and their releases in a real API server, with real folders of releases."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from functions import catalog
from functions.cluster_stack_release.decide import decide
from functions.cluster_stack_release.observe import observe
from infra.local import crds
from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER, CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.clients import Clients
from shared.effects import perform
from shared.event import Event, change_event
from shared.kube import ApiError, Client, Key, Object, Resource, connect, dig
from shared.kube.crds import CRD
from shared.runtime import Answer
from shared.storage import ObjectStore
from shared.workload.rollout import Rollout
from tests.conftest import NAMESPACE
from tests.support.releases import STACK, write_release

CLASS = Resource("cluster.x-k8s.io", "v1beta2", "ClusterClass", "clusterclasses")
TEMPLATE = Resource("infrastructure.cluster.x-k8s.io", "v1beta1", "ToyMachineTemplate", "toymachinetemplates")
_PROVIDERS = "infrastructure.clusterstack.x-k8s.io"
TOY = Resource(_PROVIDERS, "v1alpha1", "ToyClusterStackRelease", "toyclusterstackreleases")
TOY_TEMPLATE = Resource(_PROVIDERS, "v1alpha1", "ToyClusterStackReleaseTemplate", "toyclusterstackreleasetemplates")


def definition(resource: Resource, *, required: str = "") -> Object:
    """A CRD for a kind that takes anything, but for one field of its spec that may be required."""
    spec: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if required:
        spec["required"] = [required]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"kind": resource.kind, "plural": resource.plural, "singular": resource.kind.lower()},
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


@pytest.fixture(scope="module")
def kinds(kubeconfig: Path) -> Iterator[None]:
    """What Cluster API and providers would have brought."""
    client = connect.from_kubeconfig(str(kubeconfig))
    brought = [definition(CLASS, required="infrastructure"), *map(definition, (TEMPLATE, TOY, TOY_TEMPLATE))]
    crds.install(client, brought)
    yield
    for crd in brought:
        client.delete(CRD, Key("", crd["metadata"]["name"]))
    client.close()


def classes(version: str, *, infrastructure: str = "{}", extra: str = "") -> dict[str, str]:
    """Templates of a class chart, named as published ones are."""
    text = f"""
apiVersion: {CLASS.api_version}
kind: ClusterClass
metadata: {{name: "{{{{ .Release.Name }}}}-{version}"}}
spec: {{infrastructure: {infrastructure}}}
---
apiVersion: {TEMPLATE.api_version}
kind: ToyMachineTemplate
metadata: {{name: "{{{{ .Release.Name }}}}-{version}-worker", namespace: "{{{{ .Release.Namespace }}}}"}}
spec: {{size: small}}
"""
    return {"class.yaml": text, "extra.yaml": extra}


@dataclass
class World:
    """A ClusterStack called `stack`, a folder of releases, and the functions called the way a broker would."""

    client: Client
    clients: Clients
    namespace: str
    folder: Path
    answers: list[Answer] = field(default_factory=list)

    def publish(self, version: str, **options: Any) -> str:
        """The class name of a release that is in the folder now."""
        options.setdefault("class_templates", classes(version))
        return write_release(self.folder, version, **options)

    def stack(self, **spec: Any) -> Object:
        spec = {"provider": "test", "name": "stack", "kubernetesVersion": "1.36", "noProvider": True} | spec
        return self.apply(CLUSTER_STACK, "stack", spec=spec)

    def apply(self, resource: Resource, name: str, namespace: str = "", **content: Any) -> Object:
        metadata = {"name": name, "namespace": namespace or self.namespace, **content.pop("metadata", {})}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
        return self.client.apply(resource, body, manager="user")

    def cluster(self, class_name: str, name: str = "demo", **reference: str) -> Object:
        return self.apply(CLUSTER, name, spec={"topology": {"classRef": {"name": class_name, **reference}}})

    def find(self, resource: Resource, name: str) -> Object | None:
        return self.client.find(resource, Key(self.namespace, name))

    def get(self, resource: Resource, name: str) -> Object:
        return self.client.get(resource, Key(self.namespace, name))

    def delete(self, resource: Resource, name: str) -> Object:
        obj = self.get(resource, name)
        self.client.delete(resource, Key(self.namespace, name))
        return obj

    def names(self, resource: Resource) -> list[str]:
        return sorted(obj["metadata"]["name"] for obj in self.client.list(resource, self.namespace))

    def release(self, version: str) -> Object:
        return self.get(CLUSTER_STACK_RELEASE, f"{STACK}-{version}")

    def call(self, function: str, event: Event) -> Answer:
        answer = catalog.handler(function)(self.clients, event)
        self.answers.append(answer)
        return answer

    def look_at_stack(self) -> Answer:
        return self.call("cluster_stack", change_event(self.get(CLUSTER_STACK, "stack"), "update", source="/test"))

    def look_at(self, release: Object, *, resync: bool = False) -> Answer:
        """One event about a release, and what it leads to."""
        answer = self.call("cluster_stack_release", change_event(release, "update", source="/test", resync=resync))
        if answer.reply is not None:
            fetched = self.call("release_assets", answer.reply)
            assert fetched.reply is not None
            answer = self.call("cluster_stack_release", fetched.reply)
        return answer

    def settle(self) -> None:
        """Events about the stack and its releases until nothing changes any more."""
        for _ in range(12):
            before = self.versions()
            if self.find(CLUSTER_STACK, "stack"):
                self.look_at_stack()
            for release in list(self.client.list(CLUSTER_STACK_RELEASE, self.namespace)):
                self.look_at(release)
            if self.versions() == before:
                return
        raise AssertionError(f"does not come to rest: {self.versions()}")

    def versions(self) -> dict[str, str]:
        return {
            f"{resource.kind} {obj['metadata']['name']}": obj["metadata"]["resourceVersion"]
            for resource in (CLUSTER_STACK, CLUSTER_STACK_RELEASE, CLASS, TEMPLATE, TOY)
            for obj in self.client.list(resource, self.namespace)
        }

    def condition(self, obj: Object, type_: str) -> Object:
        found = get_condition(dig(obj, "status.conditions"), type_)
        assert found is not None, f"{type_} is not among {dig(obj, 'status.conditions')}"
        return found

    def of_stack(self, type_: str) -> Object:
        return self.condition(self.get(CLUSTER_STACK, "stack"), type_)


@pytest.fixture
def world(
    kinds: None,
    management: Client,
    clients: Clients,
    namespace: str,
    tmp_path: Path,
    object_store: ObjectStore,  # sets the environment
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    monkeypatch.setenv("RELEASE_SOURCE", str(tmp_path))
    yield World(management, clients, namespace, tmp_path)
    for resource in (CLUSTER_STACK, CLUSTER_STACK_RELEASE, CLUSTER, TOY):
        for obj in list(management.list(resource, namespace)):
            key = Key(namespace, obj["metadata"]["name"])
            management.patch(resource, key, {"metadata": {"finalizers": None}})
            management.delete(resource, key)


# -- subscribing -------------------------------------------------------------------------------------------------


def test_a_release_becomes_a_class(world: World) -> None:
    world.publish("v1")
    world.publish("v0-sha.abc1234")
    (world.folder / "something-else").mkdir()
    world.stack()
    world.settle()
    stack, release = world.get(CLUSTER_STACK, "stack"), world.release("v1")
    assert world.names(CLUSTER_STACK_RELEASE) == [f"{STACK}-v1"]
    assert [(o["kind"], o["name"], o["uid"]) for o in release["metadata"]["ownerReferences"]] == [
        ("ClusterStack", "stack", stack["metadata"]["uid"])
    ]
    assert world.names(CLASS) == [f"{STACK}-v1"]
    assert world.names(TEMPLATE) == [f"{STACK}-v1-worker"]
    assert world.get(CLASS, f"{STACK}-v1")["metadata"]["labels"] == {"clusterstack.x-k8s.io/instance": "owned"}
    assert release["status"]["ready"] is True
    assert release["status"]["kubernetesVersion"] == "v1.36.3"
    assert {r["kind"]: r["status"] for r in release["status"]["resources"]} == {
        "ClusterClass": "synced",
        "ToyMachineTemplate": "synced",
    }
    assert {c["type"]: c["status"] for c in release["status"]["conditions"]} == {
        "ClusterStackReleaseDownloaded": "True",
        "ProviderClusterStackReleaseReady": "True",
        "HelmChartApplied": "True",
        "Ready": "True",
    }
    assert stack["status"]["latestRelease"] == f"{STACK}-v1 | v1.36.3"
    assert stack["status"]["usableVersions"] == "v1"
    assert stack["status"]["summary"] == [{"name": "v1", "ready": True, "phase": "done"}]
    assert {c["type"]: c["status"] for c in stack["status"]["conditions"]} == {
        "AssetsClientAPIAvailable": "True",
        "ReleasesSynced": "True",
        "ClusterStackReleasesSynced": "True",
        "ClusterStackReleaseAvailable": "True",
        "Ready": "True",
    }


def test_the_source_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.publish("v1")
    world.stack()
    world.settle()
    assert world.look_at_stack().retry_after == 300.0
    monkeypatch.setenv("RELEASE_POLL_SECONDS", "7")
    assert (world.look_at_stack().status, world.look_at_stack().retry_after) == (202, 7.0)


def test_what_is_at_rest_costs_no_write(world: World) -> None:
    world.publish("v1")
    world.stack()
    world.settle()
    before = world.versions()
    requests = world.client.requests
    assert world.look_at(world.release("v1")).message == "settled"
    assert world.client.requests - requests == 2  # this test's own look among them
    world.look_at_stack()
    world.look_at(world.release("v1"), resync=True)
    assert world.versions() == before


def test_a_new_release_replaces_the_old_once_it_is_ready(world: World) -> None:
    world.publish("v9")
    world.stack()
    world.settle()
    world.publish("v10")
    world.look_at_stack()
    assert world.names(CLUSTER_STACK_RELEASE) == [f"{STACK}-v10", f"{STACK}-v9"]
    summary = {line["name"]: line["phase"] for line in world.get(CLUSTER_STACK, "stack")["status"]["summary"]}
    assert summary == {"v9": "done", "v10": ""}
    world.settle()
    assert world.names(CLUSTER_STACK_RELEASE) == [f"{STACK}-v10"]
    assert world.names(CLASS) == [f"{STACK}-v10"]
    assert world.names(TEMPLATE) == [f"{STACK}-v10-worker"]
    assert world.get(CLUSTER_STACK, "stack")["status"]["usableVersions"] == "v10"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_release_in_use_stays_until_its_last_cluster_leaves(world: World, elsewhere: bool) -> None:
    world.publish("v0-sha.aaa", class_templates=classes("v0-sha.aaa"))
    world.stack(channel="custom")
    world.settle()
    where = world.namespace + "-other" if elsewhere else world.namespace
    if elsewhere:
        world.client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}})
    reference = {"name": f"{STACK}-v0-sha.aaa"} | ({"namespace": world.namespace} if elsewhere else {})
    cluster = world.apply(CLUSTER, "demo", where, spec={"topology": {"classRef": reference}})
    world.publish("v1-sha.bbb", class_templates=classes("v1-sha.bbb"))
    world.settle()
    assert world.names(CLUSTER_STACK_RELEASE) == [f"{STACK}-v0-sha-aaa", f"{STACK}-v1-sha-bbb"]
    assert world.get(CLUSTER_STACK, "stack")["status"]["usableVersions"] == "v0-sha.aaa, v1-sha.bbb"
    world.client.delete(CLUSTER, Key(where, "demo"))
    answer = world.call("cluster_stack", change_event(cluster, "delete", source="/test"))
    assert (answer.status, answer.retry_after) == (204, None)
    world.settle()
    assert world.names(CLASS) == [f"{STACK}-v1-sha.bbb"]


def test_a_cluster_of_another_namespace_does_not_count(world: World) -> None:
    world.publish("v1")
    world.stack()
    world.settle()
    where = world.namespace + "-other"
    world.client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}})
    world.apply(CLUSTER, "demo", where, spec={"topology": {"class": f"{STACK}-v1"}})
    world.publish("v2")
    world.settle()
    assert world.names(CLASS) == [f"{STACK}-v2"]
    world.client.delete(CLUSTER, Key(where, "demo"))


def test_a_cluster_that_moves_to_the_new_release_lets_the_old_one_go(world: World) -> None:
    world.publish("v1")
    world.stack()
    world.settle()
    world.cluster(f"{STACK}-v1")
    world.publish("v2")
    world.settle()
    assert world.names(CLASS) == [f"{STACK}-v1", f"{STACK}-v2"]
    moved = world.cluster(f"{STACK}-v2")
    world.call("cluster_stack", change_event(moved, "update", source="/test"))
    assert dig(world.find(CLUSTER_STACK_RELEASE, f"{STACK}-v1") or {}, "metadata.deletionTimestamp")
    world.settle()
    assert world.names(CLASS) == [f"{STACK}-v2"]


def test_versions_by_name(world: World) -> None:
    for version in ("v1", "v2", "v3"):
        world.publish(version)
    world.stack(autoSubscribe=False, versions=["v1", "v2"])
    world.settle()
    assert world.names(CLASS) == [f"{STACK}-v1", f"{STACK}-v2"]
    assert get_condition(dig(world.get(CLUSTER_STACK, "stack"), "status.conditions"), "ReleasesSynced") is None
    world.stack(autoSubscribe=False, versions=["v3"])
    world.settle()
    assert world.names(CLASS) == [f"{STACK}-v3"]


# -- sources -----------------------------------------------------------------------------------------------------


def test_a_source_that_fails_costs_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.publish("v1")
    world.stack()
    world.settle()
    world.publish("v2")
    world.look_at_stack()  # v2 is on its way, not ready
    monkeypatch.setenv("RELEASE_SOURCE", "gopher://nowhere")
    answer = world.look_at_stack()
    assert (answer.status, answer.retry_after) == (202, 60.0)
    assert world.names(CLUSTER_STACK_RELEASE) == [f"{STACK}-v1", f"{STACK}-v2"]
    told = world.of_stack("AssetsClientAPIAvailable")
    assert (told["reason"], told["severity"]) == ("FailedCreateAssetsClient", "Error")
    assert "gopher" in told["message"]
    assert world.of_stack("Ready")["status"] == "False"
    monkeypatch.setenv("RELEASE_SOURCE", str(world.folder))
    world.settle()
    assert world.names(CLASS) == [f"{STACK}-v2"]
    assert world.of_stack("Ready")["status"] == "True"


def test_a_release_that_cannot_be_fetched_says_why(world: World) -> None:
    world.stack(autoSubscribe=False, versions=["v7"])
    world.look_at_stack()
    answer = world.look_at(world.release("v7"))
    assert (answer.status, answer.retry_after, answer.reply) == (202, 60.0, None)
    told = world.condition(world.release("v7"), "ClusterStackReleaseDownloaded")
    assert (told["reason"], told["severity"]) == ("IssueWithReleaseAssets", "Error")
    assert f"{STACK}-v7" in told["message"]
    world.look_at_stack()
    [line] = world.get(CLUSTER_STACK, "stack")["status"]["summary"]
    assert (line["phase"], line["ready"]) == ("downloading release assets", False)
    assert f"{STACK}-v7" in line["message"]


def test_a_wiped_store_costs_a_ready_release_nothing(world: World) -> None:
    tag = world.publish("v1")
    world.stack()
    world.settle()
    world.clients.releases.delete(tag)
    assert world.look_at(world.release("v1")).message == "settled"
    answer = world.call(
        "cluster_stack_release", change_event(world.release("v1"), "update", source="/test", resync=True)
    )
    assert answer.reply is not None
    assert answer.reply.type == "dev.capi-functions.release.wanted"
    release = world.release("v1")
    assert release["status"]["ready"] is True
    assert world.condition(release, "ClusterStackReleaseDownloaded")["reason"] == "ReleaseAssetsNotDownloadedYet"
    world.look_at(release)
    assert world.condition(world.release("v1"), "Ready")["status"] == "True"


# -- the class chart ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("{{ nope }}", "nope"),
        ("a: {{ .Values.missing.deep }}", "extra.yaml"),
        ("kind: [unclosed", "extra.yaml"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kube-system}", "only test-"),
        ("apiVersion: nowhere.example.com/v1\nkind: Nothing\nmetadata: {name: a}", "the management cluster does not"),
    ],
)
def test_a_broken_chart_is_a_condition(world: World, extra: str, words: str) -> None:
    world.publish("v1", class_templates=classes("v1", extra=extra))
    world.stack()
    world.look_at_stack()
    answer = world.look_at(world.release("v1"))
    assert answer.retry_after in (20.0, 60.0)
    told = world.condition(world.release("v1"), "HelmChartApplied")
    assert (told["reason"], told["severity"]) == ("FailedToApplyObjects", "Error")
    assert words in told["message"]
    assert world.names(CLASS) == []
    assert world.release("v1")["status"]["ready"] is False
    world.settle()
    [line] = world.get(CLUSTER_STACK, "stack")["status"]["summary"]
    assert line["phase"] == "applying objects"
    assert words in line["message"]


def test_a_chart_without_objects_is_a_condition(world: World) -> None:
    world.publish("v1", class_templates={"none.yaml": ""})
    world.stack()
    world.settle()
    assert "renders no objects" in world.condition(world.release("v1"), "HelmChartApplied")["message"]


def test_a_refused_object_does_not_stop_the_others(world: World) -> None:
    refused = f"apiVersion: {CLASS.api_version}\nkind: ClusterClass\nmetadata: {{name: bad}}\nspec: {{}}"
    world.publish("v1", class_templates=classes("v1", extra=refused))
    world.stack()
    world.look_at_stack()
    assert world.look_at(world.release("v1")).retry_after == 20.0
    release = world.release("v1")
    told = world.condition(release, "HelmChartApplied")
    assert (told["reason"], told["severity"]) == ("ObjectsApplyingOngoing", "Warning")
    assert "infrastructure" in told["message"]
    assert {r["name"]: r["status"] for r in release["status"]["resources"]} == {
        f"{STACK}-v1": "synced",
        f"{STACK}-v1-worker": "synced",
        "bad": "not-synced",
    }
    assert release["status"]["ready"] is False


def test_a_kind_that_comes_later(world: World) -> None:
    late = Resource("infrastructure.cluster.x-k8s.io", "v1beta1", "LateTemplate", "latetemplates")
    extra = f"apiVersion: {late.api_version}\nkind: LateTemplate\nmetadata: {{name: late}}"
    world.publish("v1", class_templates=classes("v1", extra=extra))
    world.stack()
    world.settle()
    assert "LateTemplate" in world.condition(world.release("v1"), "HelmChartApplied")["message"]
    crds.install(world.client, [definition(late)])
    world.settle()
    assert world.release("v1")["status"]["ready"] is True
    world.client.delete(CRD, Key("", f"{late.plural}.{late.group}"))


def test_a_resync_repairs_the_class(world: World) -> None:
    world.publish("v1")
    world.stack()
    world.settle()
    world.delete(CLASS, f"{STACK}-v1")
    world.client.patch(TEMPLATE, Key(world.namespace, f"{STACK}-v1-worker"), {"spec": {"size": "large"}})
    world.look_at(world.release("v1"), resync=True)
    assert world.names(CLASS) == [f"{STACK}-v1"]
    assert world.get(TEMPLATE, f"{STACK}-v1-worker")["spec"] == {"size": "small"}
    assert world.condition(world.release("v1"), "Ready")["status"] == "True"


def test_killed_after_the_intent_was_written(world: World) -> None:
    tag = world.publish("v1")
    world.stack()
    world.look_at_stack()
    world.look_at(world.release("v1"))
    finished = world.names(CLASS), world.names(TEMPLATE), world.release("v1")["status"]["resources"]
    # The same in another stack of effects, which ends before anything is applied.
    world.client.patch(CLUSTER_STACK_RELEASE, Key(world.namespace, tag), {"status": None}, subresource="status")
    for resource, name in ((CLASS, tag), (TEMPLATE, f"{tag}-worker")):
        world.delete(resource, name)
    release = world.release("v1")
    decision = decide(observe(world.clients, Key(world.namespace, tag), release), datetime.now(UTC))
    begun = perform([effect for effect in decision.effects if not isinstance(effect, Rollout)], world.clients)
    assert begun.error is None
    assert {r["status"] for r in world.release("v1")["status"]["resources"]} == {"not-synced"}
    assert world.names(CLASS) == []
    world.look_at(world.release("v1"))
    entries = [{**entry, "uid": ""} for entry in world.release("v1")["status"]["resources"]]
    assert (world.names(CLASS), world.names(TEMPLATE)) == finished[:2]
    assert entries == [{**entry, "uid": ""} for entry in finished[2]]


def test_killed_between_intent_and_apply_and_then_deleted(world: World) -> None:
    tag = world.publish("v1")
    world.stack()
    world.look_at_stack()
    key = Key(world.namespace, tag)
    world.look_at(world.release("v1"))
    world.client.delete(CLUSTER_STACK_RELEASE, key)
    world.delete(CLASS, tag)  # as if it had not been reached
    world.look_at(world.release("v1"))
    assert world.find(CLUSTER_STACK_RELEASE, tag) is None
    assert world.names(TEMPLATE) == []


def test_two_replicas_at_once(world: World) -> None:
    world.publish("v1")
    world.publish("v2")
    world.stack(versions=["v1"])
    stack = change_event(world.get(CLUSTER_STACK, "stack"), "update", source="/test")
    answers = _at_once(lambda: world.call("cluster_stack", stack))
    assert {answer.status for answer in answers} <= {202, 503}
    assert world.names(CLUSTER_STACK_RELEASE) == [f"{STACK}-v1", f"{STACK}-v2"]
    for version in ("v1", "v2"):
        reply = world.call("cluster_stack_release", change_event(world.release(version), "add", source="/test")).reply
        assert reply is not None
        fetched = world.call("release_assets", reply).reply
        assert fetched is not None
        answers = _at_once(lambda event=fetched: world.call("cluster_stack_release", event))  # type: ignore[misc]
        assert {answer.status for answer in answers} <= {204, 503}
    world.settle()
    assert world.names(CLASS) == [f"{STACK}-v1", f"{STACK}-v2"]
    assert world.get(CLUSTER_STACK, "stack")["status"]["usableVersions"] == "v1, v2"


def _at_once(call: Any) -> list[Answer]:
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(call())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    return answers


# -- deletion ----------------------------------------------------------------------------------------------------


def test_a_release_in_use_is_not_deleted(world: World) -> None:
    tag = world.publish("v1")
    world.stack()
    world.settle()
    cluster = world.cluster(tag)
    world.delete(CLUSTER_STACK_RELEASE, tag)
    answer = world.look_at(world.release("v1"))
    assert (answer.status, answer.retry_after) == (202, 60.0)
    told = world.condition(world.release("v1"), "HelmChartDeleted")
    assert told["reason"] == "ClusterClassInUse"
    assert f"{world.namespace}/demo" in told["message"]
    assert world.names(CLASS) == [tag]
    world.look_at_stack()
    [line] = world.get(CLUSTER_STACK, "stack")["status"]["summary"]
    assert line["message"].startswith("being deleted: its ClusterClass is used by")
    world.delete(CLUSTER, "demo")
    world.call("cluster_stack_release", change_event(cluster, "delete", source="/test"))
    assert world.find(CLUSTER_STACK_RELEASE, tag) is None
    assert (world.names(CLASS), world.names(TEMPLATE)) == ([], [])
    world.settle()  # it is still what the stack wants
    assert world.names(CLASS) == [tag]


def test_only_what_is_ours_is_deleted(world: World) -> None:
    tag = world.publish("v1")
    world.stack()
    world.settle()
    world.delete(CLASS, tag)
    world.apply(CLASS, tag, spec={"infrastructure": {}})  # of the same name, and somebody else's
    key = Key(world.namespace, f"{tag}-worker")
    world.client.patch(TEMPLATE, key, {"metadata": {"labels": {"clusterstack.x-k8s.io/instance": None}}})
    world.delete(CLUSTER_STACK, "stack")
    world.settle()
    assert world.names(CLUSTER_STACK_RELEASE) == []
    assert (world.names(CLASS), world.names(TEMPLATE)) == ([tag], [f"{tag}-worker"])


def test_what_another_release_has_too_stays(world: World) -> None:
    shared = f"apiVersion: {TEMPLATE.api_version}\nkind: ToyMachineTemplate\nmetadata: {{name: shared}}"
    for version in ("v1", "v2"):
        world.publish(version, class_templates=classes(version, extra=shared))
    world.stack(versions=["v1"])
    world.settle()
    world.stack()
    world.settle()
    assert world.names(TEMPLATE) == ["shared", f"{STACK}-v2-worker"]
    world.delete(CLUSTER_STACK, "stack")
    world.settle()
    assert world.names(TEMPLATE) == []


def test_what_two_leaving_releases_have_goes_with_the_last(world: World) -> None:
    shared = f"apiVersion: {TEMPLATE.api_version}\nkind: ToyMachineTemplate\nmetadata: {{name: shared}}"
    for version in ("v1", "v2"):
        world.publish(version, class_templates=classes(version, extra=shared))
    world.stack(versions=["v1"])
    world.settle()
    world.cluster(f"{STACK}-v2")
    world.delete(CLUSTER_STACK, "stack")
    world.settle()
    assert world.names(TEMPLATE) == ["shared", f"{STACK}-v2-worker"]
    world.delete(CLUSTER, "demo")
    world.settle()
    assert world.names(TEMPLATE) == []


def test_a_stack_waits_for_its_releases(world: World) -> None:
    tag = world.publish("v1")
    world.stack()
    world.settle()
    world.cluster(tag)
    world.delete(CLUSTER_STACK, "stack")
    world.settle()
    told = world.of_stack("ClusterStackReleasesSynced")
    assert told["reason"] == "Deleting"
    assert f"{tag} (its ClusterClass is used by Cluster {world.namespace}/demo)" in told["message"]
    assert world.look_at_stack().retry_after == 20.0
    world.delete(CLUSTER, "demo")
    world.settle()
    assert world.find(CLUSTER_STACK, "stack") is None
    assert (world.names(CLUSTER_STACK_RELEASE), world.names(CLASS)) == ([], [])


# -- paused ------------------------------------------------------------------------------------------------------


def test_paused(world: World) -> None:
    paused = {"annotations": {"cluster.x-k8s.io/paused": ""}}
    world.publish("v1")
    world.apply(
        CLUSTER_STACK,
        "stack",
        metadata=paused,
        spec={"provider": "test", "name": "stack", "kubernetesVersion": "1.36", "noProvider": True},
    )
    assert world.look_at_stack().status == 204
    assert world.of_stack("Paused")["status"] == "True"
    assert world.names(CLUSTER_STACK_RELEASE) == []
    world.stack()
    world.look_at_stack()
    key = Key(world.namespace, f"{STACK}-v1")
    world.client.patch(CLUSTER_STACK_RELEASE, key, {"metadata": paused})
    world.settle()
    assert world.condition(world.release("v1"), "Paused")["status"] == "True"
    assert world.names(CLASS) == []
    world.client.patch(CLUSTER_STACK_RELEASE, key, {"metadata": {"annotations": None}})
    world.settle()
    assert world.names(CLASS) == [f"{STACK}-v1"]
    assert get_condition(world.release("v1")["status"]["conditions"], "Paused") is None
    assert get_condition(world.get(CLUSTER_STACK, "stack")["status"]["conditions"], "Paused") is None


# -- providers ---------------------------------------------------------------------------------------------------

REFERENCE = {"apiVersion": TOY_TEMPLATE.api_version, "kind": TOY_TEMPLATE.kind, "name": "toys"}


def with_provider(world: World, **template: Any) -> str:
    tag = world.publish("v1")
    content = {"metadata": {"labels": {"from": "template"}}, "spec": {"images": ["a"]}} | template
    world.apply(TOY_TEMPLATE, "toys", spec={"template": content})
    world.stack(noProvider=False, providerRef=REFERENCE)
    return tag


def test_the_provider_goes_first(world: World) -> None:
    tag = with_provider(world)
    world.settle()
    toy, release = world.get(TOY, tag), world.release("v1")
    assert toy["spec"] == {"images": ["a"]}
    assert toy["metadata"]["labels"] == {"from": "template"}
    assert [(o["kind"], o["uid"]) for o in toy["metadata"]["ownerReferences"]] == [
        ("ClusterStackRelease", release["metadata"]["uid"])
    ]
    assert release["spec"]["providerRef"] == {
        "apiVersion": TOY.api_version,
        "kind": "ToyClusterStackRelease",
        "name": tag,
        "namespace": world.namespace,
    }
    told = world.condition(release, "ProviderClusterStackReleaseReady")
    assert (told["status"], told["reason"]) == ("False", "ProcessOngoing")
    assert world.look_at(release).retry_after == 10.0
    [line] = world.get(CLUSTER_STACK, "stack")["status"]["summary"]
    assert line["phase"] == "provider-specific work"
    assert world.names(CLASS) == []
    world.client.patch(TOY, Key(world.namespace, tag), {"status": {"ready": True}}, subresource="status")
    world.settle()
    assert world.names(CLASS) == [tag]
    assert world.of_stack("ProviderClusterStackReleasesSynced")["status"] == "True"


def test_the_provider_object_follows_its_template(world: World) -> None:
    tag = with_provider(world)
    world.settle()
    world.apply(TOY_TEMPLATE, "toys", spec={"template": {"spec": {"images": ["b"]}}})
    world.look_at_stack()
    assert world.get(TOY, tag)["spec"] == {"images": ["b"]}


def test_a_missing_template(world: World) -> None:
    tag = world.publish("v1")
    world.stack(noProvider=False, providerRef=REFERENCE)
    assert world.look_at_stack().retry_after == 60.0
    told = world.of_stack("ProviderClusterStackReleasesSynced")
    assert (told["reason"], told["severity"]) == ("ProviderTemplateNotFound", "Error")
    assert "ToyClusterStackReleaseTemplate toys" in told["message"]
    assert world.names(CLUSTER_STACK_RELEASE) == []
    with_provider(world)
    world.settle()
    assert world.names(TOY) == [tag]


def test_a_kind_that_is_no_template(world: World) -> None:
    world.publish("v1")
    world.apply(TEMPLATE, "toys", spec={"template": {"spec": {}}})
    world.stack(noProvider=False, providerRef=REFERENCE | {"apiVersion": TEMPLATE.api_version, "kind": TEMPLATE.kind})
    world.settle()
    told = world.of_stack("ProviderClusterStackReleasesSynced")
    assert "is no <Provider>ClusterStackReleaseTemplate" in told["message"]
    assert world.names(CLUSTER_STACK_RELEASE) == []


def test_an_object_of_somebody_else(world: World) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "00000000-0000-0000-0000-000000000000"}
    world.apply(TOY, f"{STACK}-v1", metadata={"ownerReferences": [owner]}, spec={"images": []})
    with_provider(world)
    assert world.look_at_stack().retry_after == 60.0
    told = world.of_stack("ProviderClusterStackReleasesSynced")
    assert (told["reason"], told["severity"]) == ("FailedToCreateOrUpdate", "Warning")
    assert "belongs to somebody else" in told["message"]
    before = world.versions()
    world.look_at_stack()
    assert world.versions() == before
    assert world.get(TOY, f"{STACK}-v1")["spec"] == {"images": []}


def test_a_release_of_somebody_else(world: World) -> None:
    tag = world.publish("v1")
    world.apply(CLUSTER_STACK_RELEASE, tag, spec={})
    world.stack()
    assert world.look_at_stack().retry_after == 60.0
    told = world.of_stack("ClusterStackReleasesSynced")
    assert told["reason"] == "FailedToCreateOrUpdate"
    assert "belongs to somebody else" in told["message"]


def test_the_provider_object_goes_before_the_finalizer(world: World) -> None:
    tag = with_provider(world)
    world.settle()
    key = Key(world.namespace, tag)
    world.client.patch(TOY, key, {"status": {"ready": True}}, subresource="status")
    world.settle()
    world.client.patch(TOY, key, {"metadata": {"finalizers": ["example.com/images"]}})
    world.delete(CLUSTER_STACK, "stack")
    world.settle()
    assert world.names(CLASS) == []
    told = world.condition(world.release("v1"), "ProviderClusterStackReleaseReady")
    assert told["reason"] == "Deleting"
    assert f"ToyClusterStackRelease {tag}" in told["message"]
    world.client.patch(TOY, key, {"metadata": {"finalizers": None}})
    world.settle()
    assert (world.find(CLUSTER_STACK, "stack"), world.names(CLUSTER_STACK_RELEASE)) == (None, [])


def test_a_provider_reference_cannot_have_other_objects_deleted(world: World) -> None:
    victim = world.apply(TEMPLATE, "victim", spec={})
    reference = {"apiVersion": TEMPLATE.api_version, "kind": TEMPLATE.kind, "name": "victim"}
    release = world.apply(CLUSTER_STACK_RELEASE, f"{STACK}-v1", spec={"providerRef": reference})
    world.publish("v1")
    world.look_at(release)
    world.delete(CLUSTER_STACK_RELEASE, f"{STACK}-v1")
    world.settle()
    assert world.names(CLUSTER_STACK_RELEASE) == []
    assert world.get(TEMPLATE, "victim")["metadata"]["uid"] == victim["metadata"]["uid"]


def test_a_name_that_is_no_release(world: World) -> None:
    release = world.apply(CLUSTER_STACK_RELEASE, "whatever", spec={})
    assert world.look_at(release).status == 204
    told = world.condition(world.get(CLUSTER_STACK_RELEASE, "whatever"), "ClusterStackReleaseDownloaded")
    assert "'whatever' is no name of a release" in told["message"]
    world.delete(CLUSTER_STACK_RELEASE, "whatever")
    world.settle()
    assert world.names(CLUSTER_STACK_RELEASE) == []


# -- what the API server refuses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"noProvider": False}, "providerRef is needed unless noProvider is true"),
        ({"noProvider": None}, "providerRef is needed unless noProvider is true"),
        ({"provider": ""}, "spec.provider"),
        ({"provider": "has-dash"}, "spec.provider"),
        ({"name": None}, "spec.name"),
        ({"kubernetesVersion": "1.27.3"}, "spec.kubernetesVersion"),
        ({"kubernetesVersion": "v1.27"}, "spec.kubernetesVersion"),
        ({"channel": "alpha"}, "spec.channel"),
        ({"versions": ["1"]}, "spec.versions[0]"),
        ({"versions": ["v1", "v2-alpha"]}, "spec.versions[1]"),
        ({"sources": [{"secretRef": {"name": "x"}}]}, "spec.sources[0].url"),
    ],
)
def test_invalid_stacks(world: World, spec: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        world.stack(**spec)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [{"provider": "other"}, {"name": "other"}, {"kubernetesVersion": "1.37"}, {"channel": "custom"}],
)
def test_what_makes_a_stack_cannot_change(world: World, change: Object) -> None:
    world.stack(versions=["v1"])
    with pytest.raises(ApiError, match="cannot be changed"):
        world.stack(**change)
    world.stack(versions=["v2", "v0-sha.abc", "v0-git-abc"], autoSubscribe=False)


def test_defaults(world: World) -> None:
    spec = {"provider": "docker", "name": "ferrol", "kubernetesVersion": "1.27", "providerRef": REFERENCE}
    made = world.apply(CLUSTER_STACK, "stack", spec=spec)
    assert made["spec"] == spec | {"channel": "stable", "autoSubscribe": True, "noProvider": False}
