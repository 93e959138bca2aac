"""Providers that clusterctl or Cluster API Operator installed: taken over, then upgraded, and nothing of them stays."""

from __future__ import annotations

import pytest

from shared.api.provider import CORE
from shared.api.resources import DEPLOYMENT
from shared.kube import Key, Object, Resource, dig
from shared.workload import inventory
from tests.support.provider_installers import Install, by_clusterctl, by_operator, installed
from tests.support.provider_world import Providers
from tests.support.providers import CURRENT, PREVIOUS, components

CORE_KEY = (CORE, "cluster-api", "capi-system")
MANAGER_KEY = Key("capi-system", "capi-controller-manager")


def fields_of_before(providers: Providers, objects: list[tuple[Resource, Key]]) -> list[str]:
    """What of an earlier version, and of its installer, is on the objects that are there."""
    found = []
    for resource, key in objects:
        obj = providers.client.find(resource, key)
        if obj is None:
            continue
        if "of-before" in dig(obj, "metadata.labels", {}):
            found.append(f"{resource.kind} {key}: label")
        if dig(obj, "spec.template.spec.nodeSelector"):
            found.append(f"{resource.kind} {key}: nodeSelector")
        managers = {entry["manager"] for entry in obj["metadata"]["managedFields"]}
        found += [f"{resource.kind} {key}: {name}" for name in managers & {"clusterctl", "capi-operator", "manager"}]
    return found


@pytest.mark.parametrize("install", [by_clusterctl, by_operator])
def test_taken_over_and_upgraded(providers: Providers, install: Install) -> None:
    objects = installed(providers, PREVIOUS, install)
    providers.client.patch(DEPLOYMENT, MANAGER_KEY, {"metadata": {"annotations": {"by": "hand"}}}, manager="kubectl")
    before = providers.client.get(DEPLOYMENT, MANAGER_KEY)
    assert len([one for one in fields_of_before(providers, objects) if one.endswith(": label")]) == len(objects)
    assert dig(before, "spec.template.spec.nodeSelector") == {"of-before": "x"}

    core = at(providers, PREVIOUS)
    assert fields_of_before(providers, objects) == []
    deployment = providers.client.get(DEPLOYMENT, MANAGER_KEY)
    assert deployment["metadata"]["uid"] == before["metadata"]["uid"]
    assert dig(deployment, "metadata.annotations.by") == "hand"
    versions, requests = providers.versions(), providers.requests
    providers.settle(*CORE_KEY, resync=True)
    print("look at everything after a take-over:", providers.requests - requests, "requests")
    assert providers.versions() == versions

    known = {entry.identity for entry in inventory.load(dig(core, "status.resources"))}
    core = at(providers, CURRENT)
    assert providers.client.get(DEPLOYMENT, MANAGER_KEY)["metadata"]["uid"] == before["metadata"]["uid"]
    gone = known - {entry.identity for entry in inventory.load(dig(core, "status.resources"))}
    for resource, key in objects:
        there = providers.client.find(resource, key) is not None
        assert there is ((resource.group, resource.kind, *key) not in gone), f"{resource.kind} {key}"


def at(providers: Providers, version: str) -> Object:
    providers.releases.append(components(version))
    providers.apply(*CORE_KEY, version=version, fetchConfig={"url": providers.url("core-components.yaml")})
    return providers.until_ready(*CORE_KEY)
