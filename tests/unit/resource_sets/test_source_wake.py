"""Which objects read a Secret or ConfigMap that has changed."""

from __future__ import annotations

import pytest

from functions.source_wake.decide import reads
from functions.source_wake.triggers import TRIGGERS
from shared.api.resource_set import SourceRef
from shared.api.resources import CLUSTER_RESOURCE_SET, HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.kube import Key, Object, Resource


def reader(kind: Resource, *sources: str, **spec: object) -> Object:
    field = "resources" if kind == CLUSTER_RESOURCE_SET else "valuesFrom"
    listed = [dict(zip(("kind", "name"), source.split("/"), strict=True)) for source in sources]
    return {"kind": kind.kind, "metadata": {"namespace": "ns", "name": "n"}, "spec": {field: listed, **spec}}


@pytest.mark.parametrize(
    ("obj", "changed", "expected"),
    [
        pytest.param(reader(CLUSTER_RESOURCE_SET, "Secret/a", "ConfigMap/b"), "ConfigMap/b", True, id="set"),
        pytest.param(reader(CLUSTER_RESOURCE_SET, "Secret/a"), "ConfigMap/a", False, id="another kind"),
        pytest.param(reader(CLUSTER_RESOURCE_SET, "Secret/a"), "Secret/ab", False, id="another name"),
        pytest.param(reader(HELM_RELEASE_PROXY, "Secret/a"), "Secret/a", True, id="release"),
        pytest.param(reader(HELM_RELEASE_PROXY), "Secret/a", False, id="release without sources"),
        pytest.param(
            reader(HELM_CHART_PROXY, "ConfigMap/v-{{ .Cluster.metadata.name }}"), "ConfigMap/x", True, id="any"
        ),
        pytest.param(reader(HELM_CHART_PROXY, "ConfigMap/v-{{ .Cluster.metadata.name }}"), "Secret/x", False, id="no"),
        pytest.param(reader(CLUSTER_RESOURCE_SET, resources=None), "Secret/a", False, id="nothing"),
        pytest.param(reader(HELM_RELEASE_PROXY, valuesFrom=["a", 1, {}]), "Secret/a", False, id="malformed"),
    ],
)
def test_reads(obj: Object, changed: str, expected: bool) -> None:
    kind, name = changed.split("/")
    assert reads(obj, SourceRef(kind, name)) is expected


def test_forwarder_gets_the_exact_sources() -> None:
    for watch in TRIGGERS.watches:
        for referrer in watch.referenced_by:
            obj = reader(referrer.resource, "Secret/a", "ConfigMap/b", "ConfigMap/c")
            names = {"Secret": ["a"], "ConfigMap": ["b", "c"]}[watch.resource.kind]
            assert list(referrer.references(obj)) == [Key("ns", name) for name in names]
