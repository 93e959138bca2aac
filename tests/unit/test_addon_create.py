"""Which Clusters get a ClusterAddon, and what it is made of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.addon_create.function import Observed, decide
from shared.effects import Create
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
