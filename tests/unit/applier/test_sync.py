"""The order and the number of threads of a sync."""

from __future__ import annotations

import random

import pytest

from shared.applier.inventory import InventoryEntry
from shared.applier.prune import is_custom_resource, prune_waves
from shared.applier.sync import thread_count

CRD = "apiextensions.k8s.io"


def entry(kind: str, group: str = "") -> InventoryEntry:
    return InventoryEntry(group, "v1", kind, "", "x")


@pytest.mark.parametrize(
    ("kinds", "waves"),
    [
        pytest.param(
            [("ServiceAccount", ""), ("Deployment", "apps"), ("Service", ""), ("ConfigMap", "")],
            [["Deployment", "Service", "ConfigMap", "ServiceAccount"]],
            id="the reverse of the order of installation",
        ),
        pytest.param(
            [("ValidatingWebhookConfiguration", "admissionregistration.k8s.io"), ("Deployment", "apps")],
            [["ValidatingWebhookConfiguration", "Deployment"]],
            id="webhook configurations before their backends",
        ),
        pytest.param(
            [("Namespace", ""), ("CustomResourceDefinition", CRD), ("Secret", ""), ("Widget", "example.com")],
            [["Widget"], ["Secret"], ["CustomResourceDefinition"], ["Namespace"]],
            id="custom resources, the rest, CRDs, namespaces",
        ),
        pytest.param(
            [("Deployment", "apps"), ("Gateway", "gateway.networking.k8s.io"), ("Ingress", "networking.k8s.io")],
            [["Gateway"], ["Ingress", "Deployment"]],
            id="custom resources in groups of Kubernetes projects",
        ),
        pytest.param([], [], id="nothing"),
    ],
)
def test_prune_waves_delete_custom_resources_first_and_namespaces_last(
    kinds: list[tuple[str, str]], waves: list[list[str]]
) -> None:
    entries = [entry(kind, group) for kind, group in kinds]
    random.Random(1).shuffle(entries)
    assert [[each.kind for each in wave] for wave in prune_waves(entries)] == waves


@pytest.mark.parametrize(
    ("group", "custom"),
    [
        ("", False),
        ("apps", False),
        ("batch", False),
        ("autoscaling", False),
        ("policy", False),
        ("rbac.authorization.k8s.io", False),
        ("networking.k8s.io", False),
        ("storage.k8s.io", False),
        ("flowcontrol.apiserver.k8s.io", False),
        ("gateway.networking.k8s.io", True),
        ("snapshot.storage.k8s.io", True),
        ("policy.networking.k8s.io", True),
        ("cluster.x-k8s.io", True),
        ("example.com", True),
    ],
)
def test_kinds_of_crds_are_custom_resources(group: str, *, custom: bool) -> None:
    assert is_custom_resource(entry("Thing", group)) is custom


@pytest.mark.parametrize(("objects", "expected"), [(0, 1), (1, 1), (7, 1), (8, 2), (15, 3), (31, 7), (32, 8), (400, 8)])
def test_thread_count_grows_with_the_number_of_objects_up_to_eight(objects: int, expected: int) -> None:
    assert thread_count(objects) == expected
