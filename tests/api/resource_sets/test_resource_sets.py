"""ClusterResourceSets on a real API server, which is both the management cluster and each workload cluster."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from functions import catalog
from shared.api.conditions import get_condition
from shared.api.resource_set import FINALIZER, OWNED_SOURCES, SOURCE_TYPE, binding_entry, recorded_sources
from shared.api.resources import (
    CLUSTER,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    NAMESPACE,
    SECRET,
)
from shared.clients import Clients
from shared.event import change_event
from shared.kube import ApiError, Client, Key, Object, Resource, dig
from shared.runtime import Answer
from shared.wake import wake_event
from tests.support import objects

LABELS = {"cni": "x"}


@dataclass
class Sets:
    """Clusters and sets in one namespace; each call of a function is explicit."""

    client: Client
    clients: Clients
    namespace: str
    kubeconfig: bytes

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    def cluster(self, name: str = "demo", *, labels: dict[str, str] | None = None, initialized: bool = True) -> None:
        metadata = {"labels": LABELS if labels is None else labels, "finalizers": ["test.dev/hold"]}
        self.client.create(CLUSTER, objects.manifest(CLUSTER, name, self.namespace, metadata=metadata, spec={}))
        if initialized:
            self.initialize(name)

    def initialize(self, name: str = "demo") -> None:
        status = {"status": {"initialization": {"controlPlaneInitialized": True}}}
        self.client.patch(CLUSTER, self.key(name), status, subresource="status")
        self.client.create(SECRET, objects.secret(f"{name}-kubeconfig", self.namespace, value=self.kubeconfig))

    def config_map(self, name: str, *contents: Object | str, **values: str) -> None:
        texts = {f"{n}.yaml": one if isinstance(one, str) else yaml.safe_dump(one) for n, one in enumerate(contents)}
        body = objects.manifest(CONFIG_MAP, name, self.namespace, data={**texts, **values})
        self.client.apply(CONFIG_MAP, body, manager="user")

    def secret(self, name: str, content: Object | str, *, type_: str = SOURCE_TYPE) -> None:
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        body = {**objects.secret(name, self.namespace, value=text), "type": type_}
        self.client.apply(SECRET, body, manager="user")

    def set(self, name: str = "set", *sources: str, strategy: str = "", selector: dict[str, Any] | None = None) -> None:
        resources = [dict(zip(("kind", "name"), source.split("/"), strict=True)) for source in sources]
        spec: Object = {"clusterSelector": {"matchLabels": LABELS} if selector is None else selector}
        spec |= {"resources": resources} | ({"strategy": strategy} if strategy else {})
        self.client.create(
            CLUSTER_RESOURCE_SET, objects.manifest(CLUSTER_RESOURCE_SET, name, self.namespace, spec=spec)
        )

    def read_set(self, name: str = "set") -> Object:
        return self.client.get(CLUSTER_RESOURCE_SET, self.key(name))

    def wake(self, name: str = "set") -> Answer:
        event = wake_event(self.read_set(name), source="/test")
        return catalog.handler("cluster_resource_set")(self.clients, event)

    def changed(self, name: str = "set") -> Answer:
        event = change_event(self.read_set(name), "update", source="/test")
        return catalog.handler("cluster_resource_set")(self.clients, event)

    def delete_set(self, name: str = "set") -> None:
        self.client.delete(CLUSTER_RESOURCE_SET, self.key(name))
        self.changed(name)

    def binding(self, name: str = "demo") -> Object | None:
        return self.client.find(CLUSTER_RESOURCE_SET_BINDING, self.key(name))

    def records(self, name: str = "demo", of: str = "set") -> dict[str, bool]:
        """Returns by source whether the binding of a Cluster records it as applied."""
        recorded = recorded_sources(binding_entry(self.binding(name), of))
        return {ref.name: one["applied"] for ref, one in recorded.items()}

    def condition(self, name: str = "set", type_: str = "ResourcesApplied") -> tuple[str, str, str]:
        found = get_condition(dig(self.read_set(name), "status.conditions"), type_) or {}
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")

    def older(self, name: str = "set") -> tuple[str, str, str]:
        found = (
            get_condition(dig(self.read_set(name), "status.deprecated.v1beta1.conditions"), "ResourcesApplied") or {}
        )
        return found.get("status", ""), found.get("reason", ""), found.get("severity", "")

    def map(self, name: str, value: str = "1", namespace: str | None = None) -> Object:
        return objects.manifest(CONFIG_MAP, name, self.namespace if namespace is None else namespace, data={"k": value})

    def value(self, name: str) -> str:
        return str(dig(self.client.find(CONFIG_MAP, self.key(name)), "data.k", ""))

    def owners(self, resource: Resource, name: str) -> list[str]:
        found = self.client.get(resource, self.key(name))
        return [one["name"] for one in dig(found, "metadata.ownerReferences", [])]


@pytest.fixture
def sets(management: Client, clients: Clients, namespace: str, kubeconfig: Path) -> Iterator[Sets]:
    yield Sets(management, clients, namespace, kubeconfig.read_bytes())
    for resource in (CLUSTER_RESOURCE_SET, CLUSTER):
        for one in list(management.list(resource, namespace)):
            objects.remove(management, resource, Key(namespace, one["metadata"]["name"]))


def test_config_map_and_secret_are_applied_and_recorded(sets: Sets) -> None:
    sets.cluster()
    sets.config_map("one", sets.map("a"))
    sets.secret("two", sets.map("b"))
    sets.set("set", "ConfigMap/one", "Secret/two")
    assert sets.changed().retry_after is None
    assert (sets.value("a"), sets.value("b")) == ("1", "1")
    found, binding = sets.read_set(), sets.binding()
    assert binding is not None
    assert found["metadata"]["finalizers"] == [FINALIZER]
    assert sets.condition() == ("True", "Applied", "")
    assert sets.condition(type_="Paused")[:2] == ("False", "NotPaused")
    assert sets.older() == ("True", "", "")
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    uid = found["metadata"]["uid"]
    assert binding["metadata"]["ownerReferences"] == [
        {"apiVersion": "addons.cluster.x-k8s.io/v1beta2", "kind": "ClusterResourceSet", "name": "set", "uid": uid}
    ]
    (entry,) = binding["spec"].pop("bindings")
    assert binding["spec"] == {"clusterName": "demo"}
    times = [one.pop("lastAppliedTime") for one in entry["resources"]]
    assert all(times)
    hashes = [f"sha256:{hashlib.sha256(yaml.safe_dump(sets.map(name)).encode()).hexdigest()}" for name in ("a", "b")]
    assert entry == {
        "clusterResourceSetName": "set",
        "resources": [
            {"kind": "ConfigMap", "name": "one", "hash": hashes[0], "applied": True},
            {"kind": "Secret", "name": "two", "hash": hashes[1], "applied": True},
        ],
    }
    assert sets.owners(CONFIG_MAP, "one") == sets.owners(SECRET, "two") == ["set"]


def test_reconciled_set_writes_nothing(sets: Sets) -> None:
    sets.cluster()
    sets.config_map("one", sets.map("a"))
    sets.set("set", "ConfigMap/one")
    sets.changed()
    before = [sets.read_set(), sets.binding()]
    assert sets.changed().reconciled
    sets.wake()
    assert [sets.read_set(), sets.binding()] == before


def test_cluster_that_is_labelled_later_gets_the_objects(sets: Sets) -> None:
    sets.cluster(labels={"other": "y"})
    sets.config_map("one", sets.map("a"))
    sets.set("set", "ConfigMap/one")
    sets.changed()
    assert sets.binding() is None
    assert sets.condition() == ("True", "Applied", "no Cluster is selected")
    sets.client.patch(CLUSTER, sets.key("demo"), {"metadata": {"labels": LABELS}})
    sets.wake()
    assert sets.records() == {"one": True}


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {}}, {"matchLabels": {}, "matchExpressions": []}])
def test_empty_selector_is_refused(sets: Sets, selector: Object) -> None:
    with pytest.raises(ApiError, match=r"spec\.clusterSelector must not be empty"):
        sets.set("set", "ConfigMap/one", selector=selector)


@pytest.mark.parametrize(
    ("before", "patch", "problem"),
    [
        pytest.param("", {"strategy": "Reconcile"}, "", id="strategy is set"),
        pytest.param("Reconcile", {"strategy": "Reconcile"}, "", id="strategy stays"),
        pytest.param("Reconcile", {"strategy": "ApplyOnce"}, "spec.strategy cannot change", id="strategy changes"),
        pytest.param("Reconcile", {"strategy": ""}, "spec.strategy cannot change", id="strategy is emptied"),
        pytest.param("Reconcile", {"strategy": None}, "spec.strategy cannot change", id="strategy is removed"),
        pytest.param("", {"clusterSelector": {"matchLabels": {"cni": "y"}}}, "spec.clusterSelector", id="selector"),
        pytest.param("", {"resources": []}, "", id="sources"),
    ],
)
def test_change_of_a_set_is_refused_by_its_field(sets: Sets, before: str, patch: Object, problem: str) -> None:
    sets.set("set", "ConfigMap/one", strategy=before)
    with pytest.raises(ApiError, match=problem) if problem else nullcontext():
        sets.client.patch(CLUSTER_RESOURCE_SET, sets.key("set"), {"spec": patch})


@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [
        pytest.param(None, "demo", False, id="set"),
        pytest.param("demo", "demo", False, id="same"),
        pytest.param("demo", "other", True, id="changed"),
        pytest.param("demo", None, True, id="removed"),
    ],
)
def test_binding_keeps_the_name_of_its_cluster(
    sets: Sets, before: str | None, after: str | None, is_refused: bool
) -> None:
    spec: Object = {"bindings": []} | ({"clusterName": before} if before else {})
    binding = objects.manifest(CLUSTER_RESOURCE_SET_BINDING, "demo", sets.namespace, spec=spec)
    sets.client.create(CLUSTER_RESOURCE_SET_BINDING, binding)
    with pytest.raises(ApiError, match=r"spec\.clusterName cannot change") if is_refused else nullcontext():
        sets.client.patch(CLUSTER_RESOURCE_SET_BINDING, sets.key("demo"), {"spec": {"clusterName": after}})


def test_invalid_selector_is_reported(sets: Sets) -> None:
    sets.cluster()
    sets.set("set", "ConfigMap/one", selector={"matchExpressions": [{"key": "a b", "operator": "Exists"}]})
    sets.changed()
    assert sets.condition()[:2] == ("False", "InternalError")
    assert sets.older() == ("False", "ClusterMatchFailed", "Warning")


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_source_that_is_created_later_is_applied(sets: Sets, kind: str) -> None:
    sets.cluster()
    sets.set("set", f"{kind}/one")
    assert sets.changed().retry_after
    assert sets.condition() == ("False", "InternalError", f"{kind} one does not exist")
    assert sets.older() == ("False", "RetrievingResourceFailed", "Warning")
    assert dig(sets.binding(), "spec.bindings") == [{"clusterResourceSetName": "set"}]
    (sets.config_map if kind == "ConfigMap" else sets.secret)("one", sets.map("a"))
    sets.wake()
    assert sets.owners(CONFIG_MAP if kind == "ConfigMap" else SECRET, "one") == ["set"]
    assert sets.records() == {"one": True}
    assert sets.condition()[0] == "True"


def test_secret_of_another_type_is_not_applied(sets: Sets) -> None:
    sets.cluster()
    sets.secret("one", sets.map("a"), type_="Opaque")
    sets.config_map("two", sets.map("b"))
    sets.set("set", "Secret/one", "ConfigMap/two")
    sets.changed()
    assert (sets.value("a"), sets.value("b")) == ("", "1")
    assert sets.condition()[:2] == ("False", "WrongSecretType")
    assert sets.older() == ("False", "WrongSecretType", "Warning")
    assert sets.owners(SECRET, "one") == []


def test_uninitialized_cluster_is_a_wait_without_requests(sets: Sets) -> None:
    sets.cluster(initialized=False)
    sets.client.create(SECRET, objects.secret("demo-kubeconfig", sets.namespace, value=b"not read"))
    sets.config_map("one", sets.map("a"))
    sets.set("set", "ConfigMap/one")
    assert sets.changed().retry_after
    message = "1 of 1 cluster: demo: the control plane of the Cluster is not initialized"
    assert sets.condition() == ("False", "NotApplied", message)
    assert sets.binding() is None


def test_paused_set_and_paused_cluster_are_left_alone(sets: Sets) -> None:
    sets.cluster()
    sets.config_map("one", sets.map("a"))
    sets.set("set", "ConfigMap/one")
    paused = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}
    sets.client.patch(CLUSTER_RESOURCE_SET, sets.key("set"), paused)
    sets.changed()
    assert sets.condition(type_="Paused")[:2] == ("True", "Paused")
    assert sets.binding() is None
    assert sets.changed().reconciled
    resumed = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}}
    sets.client.patch(CLUSTER_RESOURCE_SET, sets.key("set"), resumed)
    sets.client.patch(CLUSTER, sets.key("demo"), {"spec": {"paused": True}})
    sets.changed()
    assert sets.condition(type_="Paused")[:2] == ("False", "NotPaused")
    assert sets.condition()[2] == "1 of 1 cluster: demo: the Cluster is paused"
    assert sets.binding() is None


def test_failing_cluster_holds_up_no_other_one(sets: Sets) -> None:
    for name in ("a", "b", "c"):
        sets.cluster(name)
    broken = {"data": {"value": base64.b64encode(b"{}").decode()}}
    sets.client.patch(SECRET, sets.key("a-kubeconfig"), broken)
    sets.client.delete(SECRET, sets.key("c-kubeconfig"))
    sets.config_map("one", sets.map("x"))
    sets.set("set", "ConfigMap/one")
    assert sets.changed().retry_after
    assert (sets.records("a"), sets.records("b"), sets.records("c")) == ({}, {"one": True}, {})
    status, reason, message = sets.condition()
    assert (status, reason) == ("False", "InternalError")
    assert message.startswith("2 of 3 clusters: a: Secret a-kubeconfig")
    assert message.endswith("; c: Secret c-kubeconfig with the kubeconfig does not exist yet")
    assert sets.older() == ("False", "RemoteClusterClientFailed", "Error")


def test_two_sets_share_one_binding(sets: Sets) -> None:
    sets.cluster()
    sets.cluster("other")
    sets.config_map("one", sets.map("a"))
    for name in ("set", "second"):
        sets.set(name, "ConfigMap/one")
        sets.changed(name)
    assert sets.records() == sets.records(of="second") == {"one": True}
    assert sets.owners(CONFIG_MAP, "one") == ["set", "second"]
    sets.client.patch(CLUSTER, sets.key("other"), {"metadata": {"labels": {"cni": None}}})  # deselected
    sets.delete_set()
    for cluster in ("demo", "other"):
        assert (sets.records(cluster), sets.records(cluster, of="second")) == ({}, {"one": True})
        assert sets.owners(CLUSTER_RESOURCE_SET_BINDING, cluster) == ["second"]
    assert sets.owners(CONFIG_MAP, "one") == ["second"]
    sets.delete_set("second")
    assert sets.binding() is sets.binding("other") is None
    assert sets.owners(CONFIG_MAP, "one") == []  # nothing collects it
    assert sets.client.find(CLUSTER_RESOURCE_SET, sets.key("second")) is None
    assert sets.value("a") == "1"


def test_ten_sets_write_one_binding_at_once(sets: Sets) -> None:
    sets.cluster()
    names = [f"set-{n}" for n in range(10)]
    for name in names:
        sets.config_map(name, sets.map(f"of-{name}"))
        sets.set(name, f"ConfigMap/{name}")

    def settle(name: str) -> None:
        while sets.changed(name).status == 503:
            pass

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(settle, names))
    assert {name: sets.records(of=name) for name in names} == {name: {name: True} for name in names}


@pytest.mark.parametrize(("strategy", "value"), [("ApplyOnce", "1"), ("", "1"), ("Reconcile", "2")])
def test_changed_source_is_applied_again_only_by_reconcile(sets: Sets, strategy: str, value: str) -> None:
    sets.cluster()
    sets.config_map("one", sets.map("a"))
    sets.set("set", "ConfigMap/one", strategy=strategy)
    sets.changed()
    sets.config_map("one", sets.map("a", "2"), sets.map("new", "2"))
    sets.wake()
    assert sets.value("a") == value
    assert sets.value("new") == ("2" if strategy == "Reconcile" else "")


@pytest.mark.parametrize(("strategy", "value"), [("ApplyOnce", "theirs"), ("Reconcile", "1")])
def test_existing_object(sets: Sets, strategy: str, value: str) -> None:
    """ApplyOnce leaves it as it is. Reconcile changes the fields of the source and no other field."""
    sets.cluster()
    theirs = {**sets.map("a", "theirs"), "metadata": {"name": "a", "namespace": sets.namespace, "labels": {"x": "y"}}}
    sets.client.create(CONFIG_MAP, {**theirs, "data": {"k": "theirs", "more": "1"}})
    sets.config_map("one", sets.map("a"))
    sets.set("set", "ConfigMap/one", strategy=strategy)
    sets.changed()
    live = sets.client.get(CONFIG_MAP, sets.key("a"))
    assert live["data"] == {"k": value, "more": "1"}
    assert live["metadata"]["labels"] == {"x": "y"}
    assert sets.records() == {"one": True}


def test_missing_namespace_fails_one_source_and_heals(sets: Sets) -> None:
    sets.cluster()
    late = f"{sets.namespace}-late"
    sets.config_map("one", sets.map("a", namespace=late), sets.map("b"))
    sets.config_map("two", sets.map("c"))
    sets.set("set", "ConfigMap/one", "ConfigMap/two")
    assert sets.changed().retry_after
    assert sets.records() == {"one": False, "two": True}
    assert (sets.value("b"), sets.value("c")) == ("1", "1")
    status, reason, message = sets.condition()
    assert (status, reason) == ("False", "NotApplied")
    assert message.startswith(f"1 of 1 cluster: demo: ConfigMap one: ConfigMap {late}/a: ")
    assert sets.older() == ("False", "ApplyFailed", "Warning")
    before = sets.binding()
    sets.wake()
    assert sets.binding() == before  # a failure that repeats is not written again
    sets.client.create(NAMESPACE, objects.manifest(NAMESPACE, late))
    sets.wake()
    assert sets.records() == {"one": True, "two": True}
    assert sets.condition()[0] == "True"


def test_namespaces_and_crds_precede_what_needs_them_in_other_sources(sets: Sets) -> None:
    sets.cluster()
    group = f"{sets.namespace}.example.org"
    thing = Resource(group, "v1", "Thing", "things")
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"kind": "Thing", "plural": "things"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    new = f"{sets.namespace}-new"
    sets.config_map("one", objects.manifest(thing, "a", new))
    sets.config_map("two", crd, objects.manifest(NAMESPACE, new))
    sets.set("set", "ConfigMap/one", "ConfigMap/two")
    sets.changed()
    assert sets.condition() == ("True", "Applied", "")
    assert sets.client.find(thing, Key(new, "a"))


def test_contents_that_cluster_api_refuses(sets: Sets) -> None:
    """Short values, List kinds, JSON lists, objects without namespace, binaryData."""
    sets.cluster()
    name = f"short-{sets.namespace}"
    maps = [sets.map(f"item-{n}") for n in range(4)]
    sets.config_map("one", "", json.dumps(maps[:2]), {"apiVersion": "v1", "kind": "List", "items": maps[2:3]})
    no_namespace = objects.manifest(CONFIG_MAP, name, data={"k": "1"})
    binary = {"x": base64.b64encode(yaml.safe_dump_all([maps[3], no_namespace]).encode()).decode()}
    sets.client.create(CONFIG_MAP, objects.manifest(CONFIG_MAP, "two", sets.namespace, binaryData=binary))
    sets.set("set", "ConfigMap/one", "ConfigMap/two")
    sets.changed()
    assert sets.condition() == ("True", "Applied", "")
    assert [sets.value(f"item-{n}") for n in range(4)] == ["1"] * 4
    assert sets.client.find(CONFIG_MAP, Key("default", name))
    sets.client.delete(CONFIG_MAP, Key("default", name))


@pytest.mark.parametrize("strategy", ["ApplyOnce", "Reconcile"])
def test_source_that_is_filled_later_is_applied(sets: Sets, strategy: str) -> None:
    sets.cluster()
    sets.config_map("one")
    sets.set("set", "ConfigMap/one", strategy=strategy)
    sets.changed()
    assert sets.records() == {"one": False}
    assert sets.condition() == (
        "False",
        "NotApplied",
        "1 of 1 cluster: demo: ConfigMap one: the source has no content",
    )
    sets.config_map("one", sets.map("a"))
    sets.wake()
    assert sets.value("a") == "1"
    assert sets.condition() == ("True", "Applied", "")


def test_broken_content_is_reported_and_the_rest_applied(sets: Sets) -> None:
    sets.cluster()
    sets.config_map("one", "[{]")
    sets.config_map(
        "two", sets.map("a"), {"apiVersion": "none.example.org/v1", "kind": "None", "metadata": {"name": "x"}}
    )
    sets.set("set", "ConfigMap/one", "ConfigMap/two")
    sets.changed()
    assert sets.value("a") == "1"
    assert sets.records() == {"one": False, "two": False}
    (entry,) = dig(sets.binding(), "spec.bindings")
    assert ["hash" in one for one in entry["resources"]] == [False, True]
    assert "the workload cluster does not serve None (none.example.org/v1)" in sets.condition()[2]


def test_nothing_of_a_secret_is_in_status_or_events(sets: Sets, caplog: pytest.LogCaptureFixture) -> None:
    sets.cluster()
    canary = "canary-9b1f"
    sets.secret("one", {**sets.map("a"), "data": {"k": [canary]}})
    sets.secret("two", f"{canary}: [")
    sets.secret("three", canary)
    workload = objects.manifest(DEPLOYMENT, "d", sets.namespace, spec={"replicas": canary})
    sets.secret("four", workload)
    sets.set("set", "Secret/one", "Secret/two", "Secret/three", "Secret/four")
    sets.changed()
    assert sets.records() == dict.fromkeys(("one", "two", "three", "four"), False)
    events = list(sets.client.list(EVENT, sets.namespace))
    assert events
    for shown in (sets.read_set(), sets.binding(), events, caplog.text):
        assert canary not in str(shown)


def test_source_that_is_removed_from_the_spec(sets: Sets) -> None:
    """Its objects stay, and its record and owner go."""
    sets.cluster()
    sets.config_map("one", sets.map("a"))
    sets.config_map("two", sets.map("b"))
    sets.set("set", "ConfigMap/one", "ConfigMap/two")
    sets.changed()
    resources = [{"kind": "ConfigMap", "name": "two"}]
    sets.client.patch(CLUSTER_RESOURCE_SET, sets.key("set"), {"spec": {"resources": resources}})
    sets.changed()
    assert sets.records() == {"two": True}
    assert sets.value("a") == "1"
    assert (sets.owners(CONFIG_MAP, "one"), sets.owners(CONFIG_MAP, "two")) == ([], ["set"])


def test_source_that_no_binding_records_loses_its_owner(sets: Sets) -> None:
    """Otherwise the garbage collector would delete the source with the set."""
    sets.cluster(initialized=False)
    sets.config_map("one", sets.map("a"))
    sets.config_map("two", sets.map("b"))
    sets.set("set", "ConfigMap/one")
    sets.changed()
    assert sets.owners(CONFIG_MAP, "one") == ["set"]
    objects.remove(sets.client, CLUSTER, sets.key("demo"))
    resources = [{"kind": "ConfigMap", "name": "two"}]
    sets.client.patch(CLUSTER_RESOURCE_SET, sets.key("set"), {"spec": {"resources": resources}})
    sets.changed()
    assert sets.owners(CONFIG_MAP, "one") == []
    sets.wake()
    assert OWNED_SOURCES not in dig(sets.read_set(), "metadata.annotations", {})


@pytest.mark.parametrize("gone", [False, True])
def test_binding_is_deleted_with_its_cluster(sets: Sets, gone: bool) -> None:
    sets.cluster()
    sets.config_map("one", sets.map("a"))
    sets.set("set", "ConfigMap/one")
    sets.changed()
    handle = catalog.handler("cluster_resource_set_binding")
    handle(sets.clients, change_event(sets.client.get(CLUSTER, sets.key("demo")), "update", source="/test"))
    assert sets.binding()
    sets.client.delete(CLUSTER, sets.key("demo"))
    deleted = sets.client.get(CLUSTER, sets.key("demo"))
    if gone:
        sets.client.patch(CLUSTER, sets.key("demo"), {"metadata": {"finalizers": None}})
        binding = sets.binding()
        assert binding
        handle(sets.clients, change_event(binding, "update", source="/test", reference=True, resync=True))
    else:
        handle(sets.clients, change_event(deleted, "update", source="/test"))
    assert sets.binding() is None
    sets.wake()
    assert sets.binding() is None  # a Cluster that is being deleted is not selected
