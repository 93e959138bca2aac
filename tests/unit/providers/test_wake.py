"""`provider_wake`, in tables: the providers that a change affects.

MP numbers are those of Cluster API Operator's acceptance cases.
"""

from __future__ import annotations

import pytest

from functions.provider_wake.decide import affected_providers, may_reference
from shared.api.provider import BOOTSTRAP, CORE, INFRASTRUCTURE
from shared.kube import Key, Object
from tests.support.provider_objects import READY, provider

CHECKED = {"type": "PreflightCheckPassed", "status": "True", "reason": "x"}
LABELS = {"c": "edge", "version": "v1.0.0"}


def obj(kind: str, name: str, namespace: str, labels: dict[str, str] | None = None) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace, "labels": labels}}


def infra(name: str, namespace: str = "a", **spec: object) -> Object:
    return provider(INFRASTRUCTURE, name, namespace, **spec)


def names(found: list[Object]) -> list[str]:
    return [each["metadata"]["name"] for each in found]


def test_mp1_secret_affects_providers_that_reference_it() -> None:
    providers = [
        infra("by-name", configSecret={"name": "s"}),
        infra("b1", "b", configSecret={"name": "s", "namespace": "a"}),
        infra("b2", "b", configSecret={"name": "s", "namespace": "a"}),
        infra("its-own", "b", configSecret={"name": "s"}),
        infra("none"),
        infra("going", configSecret={"name": "s"}, metadata={"deletionTimestamp": "now"}),
    ]
    assert names(affected_providers(obj("Secret", "s", "a"), providers)) == ["by-name", "b1", "b2"]


def test_mp2_to_mp4_config_map_affects_providers_that_name_or_select_it() -> None:
    def by(**selector: object) -> Object:
        return {"selector": selector}

    providers = [
        infra("one-label", fetchConfig=by(matchLabels={"c": "edge"})),
        infra("exact", fetchConfig=by(matchLabels=LABELS)),
        infra("in", fetchConfig=by(matchExpressions=[{"key": "c", "operator": "In", "values": ["edge", "x"]}])),
        infra("another-value", fetchConfig=by(matchLabels={"c": "far"})),
        infra("another-namespace", "b", fetchConfig=by(matchLabels={"c": "edge"})),
        infra("none"),
        infra("url", fetchConfig={"url": "https://example.com"}),
        infra("additional", additionalManifests={"name": "cm"}),
    ]
    found = affected_providers(obj("ConfigMap", "cm", "a", LABELS), providers)
    assert names(found) == ["one-label", "exact", "in", "additional"]
    assert affected_providers(obj("ConfigMap", "other", "a", {"d": "e"}), providers) == []


def test_mp5_operational_core_provider_affects_waiting_providers() -> None:
    providers = [
        provider(),
        infra("failed", conditions=[{**CHECKED, "status": "False"}]),
        infra("fresh"),
        infra("checked", conditions=[CHECKED]),
        provider(BOOTSTRAP, "kubeadm", "b"),
    ]
    assert names(affected_providers(provider(CORE, conditions=[READY]), providers)) == ["failed", "fresh", "kubeadm"]
    assert affected_providers(provider(CORE, conditions=[{**READY, "status": "False"}]), providers) == []


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({}, False),
        ({"additionalManifests": {"name": "c"}}, True),
        ({"additionalManifests": {"name": "d"}}, False),
        ({"additionalManifests": {"name": "c", "namespace": "b"}}, False),
        ({"fetchConfig": {"selector": {"matchLabels": {"x": "y"}}}}, True),
        ({"fetchConfig": {"url": "https://example.com"}}, False),
    ],
)
def test_config_maps_that_no_provider_may_reference_are_not_read(spec: Object, named: bool) -> None:
    assert may_reference(infra("i", "a", **spec), Key("a", "c")) is named
    assert not may_reference(infra("i", "other", fetchConfig={"selector": {}}), Key("a", "c"))
