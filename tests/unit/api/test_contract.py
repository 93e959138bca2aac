"""Contracts of providers, by the labels of their CRDs."""

from __future__ import annotations

from typing import Any

import pytest

from functions import catalog
from shared.api.contract import contract_version, provider_kind, version_order
from shared.kube import Object, Resource
from shared.triggers import DefinedKinds

GROUP = "infrastructure.cluster.x-k8s.io"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, None),
        ({"v1alpha1": "v1alpha1"}, None),
        ({"v1alpha3": "v1alpha3"}, ("v1alpha3", "v1alpha3")),
        ({"v1alpha3": "v1alpha3", "v1beta1": "v1beta1"}, ("v1beta1", "v1beta1")),
        ({"v1beta2": ""}, None),
        ({"v1beta2": "v1alpha3_v1alpha4"}, ("v1beta2", "v1alpha4")),
        ({"v1beta1": "v1alpha1_v1alpha2"}, ("v1beta1", "v1alpha2")),
        ({"v1beta1": "v1alpha1_v1alpha2", "v1beta2": "v1alpha3_v1alpha4"}, ("v1beta2", "v1alpha4")),
        ({"v1beta1": "v1beta10_v1beta9"}, ("v1beta1", "v1beta10")),
        ({"v1beta1": "v1_v2beta1"}, ("v1beta1", "v1")),
    ],
)
def test_newest_contract_and_its_highest_version_are_taken(
    labels: dict[str, str], expected: tuple[str, str] | None
) -> None:
    assert contract_version({f"cluster.x-k8s.io/{name}": value for name, value in labels.items()}) == expected


def test_versions_are_ordered_like_those_of_kubernetes() -> None:
    versions = ["v2", "v1", "v1beta2", "v1beta1", "v2alpha1", "v1alpha2", "v1alpha1", "strange"]
    assert sorted(versions, key=version_order) == versions[::-1]


def definition(
    kind: str, served: dict[str, bool], group: str = GROUP, scope: str = "Namespaced", **labels: str
) -> Object:
    plural = f"{kind.lower()}s"
    metadata = {"name": f"{plural}.{group}", "labels": {f"cluster.x-k8s.io/{name}": at for name, at in labels.items()}}
    versions = [{"name": name, "served": served} for name, served in served.items()]
    names = {"kind": kind, "plural": plural}
    return {"metadata": metadata, "spec": {"group": group, "scope": scope, "names": names, "versions": versions}}


BOTH = {"v1beta1": True, "v1beta2": True}
BOTH_LABELS = {"v1beta1": "v1beta1", "v1beta2": "v1beta2"}


@pytest.mark.parametrize(
    ("crd", "version"),
    [
        pytest.param(definition("DockerCluster", BOTH, **BOTH_LABELS), "v1beta2", id="two contracts"),
        pytest.param(definition("DockerCluster", BOTH, v1beta1="v1beta1"), "v1beta1", id="v1beta1 contract"),
        pytest.param(
            definition("DockerCluster", {"v1beta1": True, "v1beta2": False}, **BOTH_LABELS), "v1beta1", id="not served"
        ),
        pytest.param(definition("DockerCluster", {"v1beta2": False}, **BOTH_LABELS), None, id="nothing served"),
        pytest.param(definition("DockerCluster", BOTH), None, id="no label"),
        pytest.param(definition("DockerCluster", BOTH, scope="Cluster", **BOTH_LABELS), None, id="cluster-scoped"),
        pytest.param(definition("AWSManagedControlPlane", BOTH, **BOTH_LABELS), "v1beta2", id="control plane"),
        pytest.param(definition("DockerMachine", BOTH, **BOTH_LABELS), None, id="machine"),
        pytest.param(definition("DockerClusterTemplate", BOTH, **BOTH_LABELS), None, id="template"),
        pytest.param(definition("Cluster", BOTH, group="cluster.x-k8s.io", **BOTH_LABELS), None, id="Cluster itself"),
    ],
)
def test_kinds_that_a_cluster_may_refer_to_are_watched(crd: Object, version: str | None) -> None:
    kinds = defined_kinds()
    names: Any = crd["spec"]["names"]
    wanted = Resource(crd["spec"]["group"], version, names["kind"], names["plural"]) if version else None
    assert kinds.defined(crd) == wanted
    assert wanted is None or kinds.may_define(crd["metadata"]["name"])
    assert wanted is None or provider_kind(crd) == wanted


def test_definitions_of_other_kinds_are_not_read() -> None:
    assert not defined_kinds().may_define("dockermachines.infrastructure.cluster.x-k8s.io")
    assert not defined_kinds().may_define("clusters.cluster.x-k8s.io")


def defined_kinds() -> DefinedKinds:
    kinds = catalog.triggers()["cluster"].defined_kinds
    assert kinds is not None
    return kinds
