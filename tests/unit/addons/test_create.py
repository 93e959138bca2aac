"""Which Clusters get a ClusterAddon, and what it is made of."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.addon_create.function import MAX_AGE_WITHOUT_READ, Observed, decide, new_cluster
from shared.api.conditions import rfc3339
from shared.effects import Create
from shared.event import Event, change_event
from shared.kube import Key, Object

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = Key("ns", "cluster-addon-demo")
TOPOLOGY: Object = {"classRef": {"name": "docker-ferrol-1-27-v2"}}


def cluster(metadata: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "demo", "namespace": "ns", "uid": "u", **(metadata or {})},
        "spec": {"topology": TOPOLOGY, **spec},
    }


def test_addon_belongs_to_its_cluster() -> None:
    [effect] = decide(Observed(KEY, None, cluster()), NOW).effects
    assert isinstance(effect, Create)
    body = effect.body
    assert (effect.resource.kind, body["kind"], body["apiVersion"]) == (
        "ClusterAddon",
        "ClusterAddon",
        "clusterstack.x-k8s.io/v1alpha1",
    )
    metadata = body["metadata"]
    assert (metadata["namespace"], metadata["name"]) == KEY
    assert metadata["labels"] == {"cluster.x-k8s.io/cluster-name": "demo"}
    assert metadata["finalizers"] == ["clusteraddon.clusterstack.x-k8s.io"]
    [owner] = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Cluster", "demo", "u")
    assert body["spec"] == {
        "clusterRef": {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "name": "demo",
            "namespace": "ns",
            "uid": "u",
        }
    }


@pytest.mark.parametrize(
    ("topology", "namespace"),
    [(TOPOLOGY, "ns"), ({"classRef": {**TOPOLOGY["classRef"], "namespace": "classes"}}, "classes")],
    ids=["in the Cluster's namespace", "in the namespace of its class"],
)
def test_release_is_requested_at_once(topology: Object, namespace: str) -> None:
    reply = decide(Observed(KEY, None, cluster(topology=topology)), NOW).reply
    assert reply is not None
    assert reply.data == {"release": "docker-ferrol-1-27-v2", "namespace": namespace}
    assert reply.name == ""


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(None, id="no Cluster"),
        pytest.param(cluster({"deletionTimestamp": "x"}), id="being deleted"),
        pytest.param(cluster(paused=True), id="paused"),
        pytest.param(cluster({"annotations": {"cluster.x-k8s.io/paused": ""}}), id="paused by annotation"),
        pytest.param(cluster(topology=None), id="no class"),
        pytest.param(cluster(topology={"class": "other"}), id="a class of no cluster stack"),
    ],
)
def test_cluster_gets_no_addon(found: Object | None) -> None:
    decision = decide(Observed(KEY, None, found), NOW)
    assert (decision.effects, decision.reply, decision.status) == ((), None, None)


CREATED = change_event(cluster({"creationTimestamp": rfc3339(NOW)}), "add", source="/test")


@pytest.mark.parametrize(
    ("event", "age", "is_new"),
    [
        pytest.param(CREATED, timedelta(0), True, id="in the same second"),
        pytest.param(CREATED, MAX_AGE_WITHOUT_READ, True, id="moments ago"),
        pytest.param(CREATED, MAX_AGE_WITHOUT_READ + timedelta(seconds=1), False, id="it may have changed since"),
        pytest.param(CREATED, timedelta(seconds=-1), False, id="our clock is slow, so its age is not known"),
        pytest.param(replace(CREATED, type=CREATED.type.replace("add", "update")), timedelta(0), False, id="changed"),
        pytest.param(replace(CREATED, resync=True), timedelta(0), False, id="delivered again after a failure"),
        pytest.param(replace(CREATED, repeated=True), timedelta(0), False, id="delivered again after a wait"),
        pytest.param(replace(CREATED, api_version="cluster.x-k8s.io/v1beta1"), timedelta(0), True, id="older version"),
        pytest.param(
            replace(CREATED, api_version="cluster.x-k8s.io/v1alpha4"), timedelta(0), False, id="other version"
        ),
        pytest.param(
            change_event(CREATED.as_object, "add", source="/test", reference=True), timedelta(0), False, id="reference"
        ),
        pytest.param(change_event(cluster(), "add", source="/test"), timedelta(0), False, id="no time of creation"),
        pytest.param(
            change_event({**CREATED.as_object, "kind": "ClusterAddon"}, "add", source="/test"),
            timedelta(0),
            False,
            id="another kind",
        ),
    ],
)
def test_only_an_event_of_a_new_cluster_is_as_good_as_a_read(event: Event, age: timedelta, is_new: bool) -> None:
    assert new_cluster(event, NOW + age) == (event.object if is_new else None)
