"""The columns of `kubectl get` for the project's kinds."""

from __future__ import annotations

import re

import pytest

from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.kube import ApiError, Client, Object
from tests.support.objects import manifest, printed_rows
from tests.support.releases import STACK, write_release
from tests.support.stacks import Stacks
from tests.support.world import World


def test_columns_of_cluster_stack_and_release(stacks: Stacks) -> None:
    tag = stacks.publish("v1")
    stacks.stack(autoSubscribe=True)
    stacks.settle()
    [stack] = printed_rows(stacks.client, CLUSTER_STACK, stacks.namespace)
    assert {name: stack[name] for name in stack if name not in ("Reason", "Message")} == {
        "Name": "stack",
        "Provider": "test",
        "ClusterStack": "stack",
        "K8s": "1.36",
        "Channel": "stable",
        "Autosubscribe": "true",
        "Usable": "v1",
        "Latest": f"{STACK}-v1 | v1.36.3",
    }
    [release] = printed_rows(stacks.client, CLUSTER_STACK_RELEASE, stacks.namespace)
    assert (release["Name"], release["K8s Version"], release["Ready"]) == (tag, "v1.36.3", True)


def test_columns_of_unusable_release(stacks: Stacks) -> None:
    stacks.publish("v1", class_templates={"class.yaml": '{{ fail "broken" }}'})
    stacks.stack()
    stacks.settle()
    [release] = printed_rows(stacks.client, CLUSTER_STACK_RELEASE, stacks.namespace)
    assert release["Ready"] in (False, None)
    assert release["Reason"]
    assert "broken" in release["Message"]
    [stack] = printed_rows(stacks.client, CLUSTER_STACK, stacks.namespace)
    assert not stack["Usable"]
    assert stack["Reason"]
    assert stack["Message"]


def test_columns_of_addon(world: World) -> None:
    world.secret()
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.settle()
    [addon] = printed_rows(world.client, CLUSTER_ADDON, world.namespace)
    assert (addon["Cluster"], addon["Ready"], addon["Reason"]) == ("demo", True, None)
    world.cluster(write_release(world.releases, "v2", templates={"broken.yaml": '{{ fail "broken" }}'}))
    world.settle()
    [addon] = printed_rows(world.client, CLUSTER_ADDON, world.namespace)
    assert (addon["Ready"], addon["Reason"]) == (False, "TemplateNewClusterStackFailed")
    assert "broken" in addon["Message"]


def test_columns_of_cluster_are_those_of_cluster_api(world: World) -> None:
    """Beside Age, which the rows leave out."""
    world.cluster("quick-start", topology={"classRef": {"name": "quick-start"}, "version": "v1.36.3"})
    counters = {"desiredReplicas": 3, "availableReplicas": 2, "upToDateReplicas": 1}
    available = {"type": "Available", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "No"}
    status = {"phase": "Provisioned", "conditions": [available], "controlPlane": counters}
    world.client.patch(CLUSTER, world.cluster_key, {"status": status}, subresource="status")
    [row] = printed_rows(world.client, CLUSTER, world.namespace)
    of_nodes = ("Desired", "Current", "Ready", "Available", "Up-to-date")
    assert list(row) == [
        *("Name", "ClusterClass", "Available"),
        *(f"CP {name}" for name in of_nodes),
        *(f"W {name}" for name in of_nodes),
        *("Paused", "Phase", "Version"),
    ]
    assert [row[name] for name in ("ClusterClass", "Available", "CP Desired", "CP Up-to-date", "Phase", "Version")] == [
        *("quick-start", "False", 3, 1, "Provisioned", "v1.36.3")
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"clusterNetwork": {"apiServerPort": 65536}}, "spec.clusterNetwork.apiServerPort"),
        ({"clusterNetwork": {"pods": {"cidrBlocks": "10.0.0.0/8"}}}, "spec.clusterNetwork.pods.cidrBlocks"),
        ({"clusterNetwork": {"pods": {}}}, "spec.clusterNetwork.pods.cidrBlocks"),
        ({"infrastructureRef": {"apiGroup": "a", "kind": "A B", "name": "a"}}, "spec.infrastructureRef.kind"),
        ({"controlPlaneRef": {"apiGroup": "a", "kind": "A", "name": "A_b"}}, "spec.controlPlaneRef.name"),
        ({"topology": {"classRef": {}}}, "spec.topology.classRef.name"),
        ({"topology": {"class": "a", "version": ""}}, "spec.topology.version"),
        ({"topology": {"class": "a", "variables": [{"name": "v"}] * 2}}, "spec.topology.variables"),
        ({"availabilityGates": [{"conditionType": "A", "polarity": "Up"}]}, "spec.availabilityGates"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_cluster_that_cluster_api_rejects_is_rejected(
    management: Client, namespace: str, spec: Object, field: str
) -> None:
    with pytest.raises(ApiError, match=re.escape(field)) as rejected:
        management.create(CLUSTER, manifest(CLUSTER, "demo", namespace, spec=spec))
    assert rejected.value.status == 422
