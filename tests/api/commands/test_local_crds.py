"""A second `up` updates the CRDs of the first, and leaves CRDs of other managers alone."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from infra.local import crds
from shared.api.provider import PROVIDER_LABEL
from shared.kube import MANAGER, Client, Key, Object, dig
from shared.kube.crds import CRD
from tests.support.until import until

GROUP = f"t{uuid.uuid4().hex[:8]}.example.com"
NAME = Key("", f"gadgets.{GROUP}")


def crd(*versions: str, labels: dict[str, str] | None = None) -> Object:
    """A CRD with these versions; the last is the storage version."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {"name": NAME.name, **({"labels": labels} if labels else {})},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
            "versions": [
                {"name": version, "served": True, "storage": version == versions[-1], "schema": schema}
                for version in versions
            ],
        },
    }


OURS = crd("v1beta2")


@pytest.fixture
def client(management: Client) -> Iterator[Client]:
    """A client of a cluster in which a first `up` has installed the CRD."""
    assert crds.install_missing(management, [OURS]) == {}
    yield management
    management.delete(CRD, NAME)
    until(lambda: management.find(CRD, NAME) is None)


def by_a_provider(client: Client) -> None:
    """Applies the CRD as `provider_install` does."""
    definition = crd("v1beta1", "v1beta2", labels={PROVIDER_LABEL: "cluster-api"})
    client.apply(CRD, definition, manager=MANAGER, force=True)


def by_kubectl(client: Client) -> None:
    client.apply(CRD, crd("v1beta1", "v1beta2"), manager="kubectl", force=True)


def by_a_newer_version_of_ours(client: Client) -> None:
    client.apply(CRD, crd("v1beta2", "v1"), manager=MANAGER)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (by_a_provider, "provider cluster-api has installed it"),
        (by_kubectl, "kubectl has written it"),
        (by_a_newer_version_of_ours, "it has more versions (v1), so it may be newer"),
    ],
)
def test_crd_of_another_manager_is_not_replaced(client: Client, change: Callable[[Client], None], reason: str) -> None:
    change(client)
    before = client.get(CRD, NAME)
    assert crds.install_missing(client, [OURS]) == {NAME.name: reason}
    after = client.get(CRD, NAME)
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert after["spec"] == before["spec"]


def test_crd_of_an_earlier_run_is_updated(client: Client) -> None:
    newer = crd("v1beta2", "v1")
    assert crds.install_missing(client, [newer]) == {}
    assert [version["name"] for version in dig(client.get(CRD, NAME), "spec.versions")] == ["v1beta2", "v1"]
