"""Which sets and charts depend on a Cluster that has changed."""

from __future__ import annotations

from typing import Any

import pytest

from functions.cluster_wake.decide import affected_selectors, bound_sets, waits_for_its_cluster
from shared.kube import Object

CLUSTER: Object = {"metadata": {"namespace": "ns", "name": "demo"}}


def selecting(name: str, labels: dict[str, str], **status: Any) -> Object:
    return {
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"clusterSelector": {"matchLabels": labels}},
        "status": status,
    }


OBJECTS = [
    selecting("selects", {"cni": "yes"}),
    selecting("selects another", {"cni": "no"}),
    selecting("has selected", {"cni": "no"}, matchingClusters=[{"name": "demo"}]),
    selecting("has selected another", {"cni": "no"}, matchingClusters=[{"name": "other"}]),
]


@pytest.mark.parametrize(
    ("labels", "bound", "affected"),
    [
        ({"cni": "yes"}, [], ["selects", "has selected"]),
        ({}, [], ["has selected"]),
        ({}, ["selects another"], ["selects another", "has selected"]),
        (None, [], [obj["metadata"]["name"] for obj in OBJECTS]),
    ],
)
def test_affected_selectors(labels: dict[str, str] | None, bound: list[str], affected: list[str]) -> None:
    found = affected_selectors(OBJECTS, CLUSTER, labels, bound)
    assert [obj["metadata"]["name"] for obj in found] == affected


@pytest.mark.parametrize(
    ("binding", "names"),
    [
        (None, []),
        ({"spec": {}}, []),
        ({"spec": {"bindings": [{"clusterResourceSetName": "a"}, {"clusterResourceSetName": "b"}]}}, ["a", "b"]),
    ],
)
def test_bound_sets(binding: Object | None, names: list[str]) -> None:
    assert bound_sets(binding) == names


@pytest.mark.parametrize(
    ("ready", "metadata", "waits"),
    [
        ("True", {}, False),
        ("False", {}, True),
        ("Unknown", {}, True),
        ("True", {"deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
    ],
)
def test_a_deployed_release_does_not_wait_for_its_cluster(ready: str, metadata: Object, waits: bool) -> None:
    release = {"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": ready}]}}
    assert waits_for_its_cluster(release) is waits
