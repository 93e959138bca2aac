"""Providers that clusterctl or Cluster API Operator installed: taken over, then upgraded, and nothing of them stays."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from infra import control_plane
from infra.cli.provider import adopt
from shared.api.provider import CORE, FINALIZER, HASH_ANNOTATION
from shared.api.resources import DEPLOYMENT
from shared.kube import Key, Object, Resource, dig
from shared.workload import inventory
from tests.support.provider_installers import Install, by_clusterctl, by_operator, cert_manager, installed
from tests.support.provider_world import Providers
from tests.support.providers import CURRENT, PREVIOUS, clusterctl, components, repository

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

    if install is by_operator:
        told_by_operator(providers, PREVIOUS)
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


def told_by_operator(providers: Providers, version: str) -> None:
    """Its provider object, which says that all is done."""
    url = providers.url("core-components.yaml")
    providers.apply(*CORE_KEY, {HASH_ANNOTATION: "0" * 64}, version=version, fetchConfig={"url": url})
    key = Key("capi-system", "cluster-api")
    providers.client.patch(CORE.resource, key, {"metadata": {"finalizers": [FINALIZER]}}, manager="manager")
    reasons = {
        "PreflightCheckPassed": "PreflightChecksPassed",
        "ProviderInstalled": "ProviderInstalled",
        "Ready": "Yes",
    }
    conditions = [
        {"type": type_, "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for type_, reason in reasons.items()
    ]
    status = {"installedVersion": version, "contract": "v1beta2", "observedGeneration": 1, "conditions": conditions}
    providers.client.patch(CORE.resource, key, {"status": status}, subresource="status", manager="manager")


def at(providers: Providers, version: str) -> Object:
    providers.releases.append(components(version))
    providers.apply(*CORE_KEY, version=version, fetchConfig={"url": providers.url("core-components.yaml")})
    return providers.until_ready(*CORE_KEY)


def test_after_the_real_clusterctl(providers: Providers, provider_plane: Path, tmp_path: Path) -> None:
    configuration = repository(tmp_path / "local", PREVIOUS, CURRENT)
    kubeconfig = control_plane.kubeconfig(provider_plane)
    with cert_manager(providers.client):
        arguments = [f"--core=cluster-api:{PREVIOUS}", "--bootstrap=-", "--control-plane=-"]
        files = ["--config", str(configuration), "--kubeconfig", str(kubeconfig)]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLUSTERCTL_DISABLE_VERSIONCHECK": "true"}
        command = [str(clusterctl()), "init", *arguments, *files]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
        assert ended.returncode == 0, ended.stderr
        before = providers.client.get(DEPLOYMENT, MANAGER_KEY)

        [found] = adopt.find(providers.client).providers
        assert (str(found), found.version) == ("CoreProvider capi-system/cluster-api", PREVIOUS)
        for version in (PREVIOUS, CURRENT):
            core = at(providers, version)
            for entry in inventory.load(dig(core, "status.resources")):
                resource = providers.clients.discovery.resource(entry.api_version, entry.kind)
                assert resource is not None
                obj = providers.client.get(resource, Key(entry.namespace, entry.name))
                assert "clusterctl" not in {one["manager"] for one in obj["metadata"]["managedFields"]}, str(entry)
        assert providers.client.get(DEPLOYMENT, MANAGER_KEY)["metadata"]["uid"] == before["metadata"]["uid"]
        again = adopt.find(providers.client).providers
        assert [one.version for one in again] == [CURRENT]
