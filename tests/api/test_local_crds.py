"""What a later `up` does about definitions that others have installed meanwhile."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from infra.local import crds
from shared.api.provider import PROVIDER_LABEL
from shared.effects import MANAGER
from shared.kube import Client, Key, Object, dig
from shared.kube.crds import CRD
from tests.support.until import until

GROUP = f"t{uuid.uuid4().hex[:8]}.example.com"
NAME = Key("", f"gadgets.{GROUP}")


def crd(*versions: str, labels: dict[str, str] | None = None) -> Object:
    """The last version is stored."""
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
def first(management: Client) -> Iterator[Client]:
    """A cluster in which a first `up` has installed them."""
    assert crds.install_missing(management, [OURS]) == {}
    yield management
    management.delete(CRD, NAME)
    until(lambda: management.find(CRD, NAME) is None)


def by_a_provider(client: Client) -> None:
    """As `provider_install` applies what a provider brings."""
    brought = crd("v1beta1", "v1beta2", labels={PROVIDER_LABEL: "cluster-api"})
    client.apply(CRD, brought, manager=MANAGER, force=True)


def by_kubectl(client: Client) -> None:
    client.apply(CRD, crd("v1beta1", "v1beta2"), manager="kubectl", force=True)


def by_a_newer_version_of_ours(client: Client) -> None:
    client.apply(CRD, crd("v1beta2", "v1"), manager=MANAGER)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (by_a_provider, "provider cluster-api has brought it"),
        (by_kubectl, "kubectl has written it"),
        (by_a_newer_version_of_ours, "it has v1, too, and may be newer"),
    ],
)
def test_definition_of_others_is_left_as_it_is(first: Client, change: Callable[[Client], None], reason: str) -> None:
    change(first)
    before = first.get(CRD, NAME)
    assert crds.install_missing(first, [OURS]) == {NAME.name: reason}
    after = first.get(CRD, NAME)
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert after["spec"] == before["spec"]


def test_definition_of_an_earlier_run_is_brought_up_to_date(first: Client) -> None:
    newer = crd("v1beta2", "v1")
    assert crds.install_missing(first, [newer]) == {}
    assert [version["name"] for version in dig(first.get(CRD, NAME), "spec.versions")] == ["v1beta2", "v1"]
