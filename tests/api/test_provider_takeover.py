"""Providers that clusterctl or Cluster API Operator installed: taken over, then upgraded, and nothing of them stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.api.provider import CORE
from shared.api.resources import DEPLOYMENT
from shared.components.certificates import CERT_MANAGER
from shared.components.render import generated
from shared.kube import Client, Key, Object, Resource, dig, key_of
from shared.workload import inventory
from tests.support.provider_world import Providers
from tests.support.providers import CURRENT, DOWNLOADS, PREVIOUS, components

CORE_KEY = (CORE, "cluster-api", "capi-system")
MANAGER_KEY = Key("capi-system", "capi-controller-manager")

Install = Callable[[Client, Resource, Object], None]


def write(client: Client, method: str, resource: Resource, obj: Object, manager: str) -> None:
    key = key_of(obj)
    kind = "application/json" if method == "POST" else "application/merge-patch+json"
    path = resource.path(key.namespace) if method == "POST" else resource.path(key.namespace, key.name)
    client.request(method, path, body=obj, query={"fieldManager": manager}, content_type=kind)


def by_clusterctl(client: Client, resource: Resource, obj: Object) -> None:
    """An upgrade of its: created once, merged over later."""
    write(client, "POST", resource, of_before(obj), "clusterctl")
    write(client, "PATCH", resource, obj, "clusterctl")


def by_operator(client: Client, resource: Resource, obj: Object) -> None:
    """Created and merged by its process, applied from its cache."""
    write(client, "POST", resource, of_before(obj), "manager")
    write(client, "PATCH", resource, obj, "manager")
    client.apply(resource, obj, manager="capi-operator")


def of_before(obj: Object) -> Object:
    """With what an earlier version had, in places where merging leaves it."""
    metadata = obj["metadata"]
    obj = {**obj, "metadata": {**metadata, "labels": {**metadata["labels"], "of-before": ""}}}
    if obj["kind"] == "Deployment":
        template = obj["spec"]["template"]
        pod = {**template["spec"], "nodeSelector": {"of-before": "x"}}
        obj = {**obj, "spec": {**obj["spec"], "template": {**template, "spec": pod}}}
    return obj


def installed(providers: Providers, version: str, install: Install) -> list[tuple[Resource, Key]]:
    """The core provider as another program would have it; a cluster without cert-manager takes all but its objects."""
    text = (components(version) / DOWNLOADS / version / "core-components.yaml").read_text()
    providers.namespace("capi-system")
    found = []
    objects = generated(text, {}, namespace="capi-system", label="cluster-api")
    objects = [obj for obj in objects if obj["kind"] != "Namespace" and CERT_MANAGER not in obj["apiVersion"]]
    for obj in objects:
        resource = providers.clients.discovery.resource(obj["apiVersion"], obj["kind"])
        assert resource is not None
        install(providers.client, resource, obj)
        found.append((resource, key_of(obj)))
    return found


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
