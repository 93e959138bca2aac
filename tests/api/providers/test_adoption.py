"""Providers that clusterctl or Cluster API Operator installed are adopted, upgraded and deleted completely."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import local_control_plane
from infra.operations.providers import adopt
from shared.api.provider import BOOTSTRAP, CORE, INFRASTRUCTURE, ProviderKind
from shared.api.resources import DEPLOYMENT
from shared.applier import inventory
from shared.kube import Key, Object, Resource, dig
from tests.support.fake_provider import FakeProvider
from tests.support.provider_installers import (
    Install,
    by_clusterctl,
    by_operator,
    cert_manager,
    installed,
    kept_by_operator,
    reported_by_operator,
)
from tests.support.provider_world import Providers
from tests.support.real_providers import CURRENT, PREVIOUS, PROVIDERS, clusterctl, components, reduced, repository
from tests.support.until import until

CORE_KEY = (CORE, "cluster-api", "capi-system")
MANAGER_KEY = Key("capi-system", "capi-controller-manager")


def fields_of_before(providers: Providers, objects: list[tuple[Resource, Key]]) -> list[str]:
    """Returns fields of an earlier version, and of its installer, on the live objects."""
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
def test_core_provider_is_adopted_and_upgraded(providers: Providers, install: Install) -> None:
    objects = installed(providers, PREVIOUS, install)
    providers.client.patch(DEPLOYMENT, MANAGER_KEY, {"metadata": {"annotations": {"by": "hand"}}}, manager="kubectl")
    before = providers.client.get(DEPLOYMENT, MANAGER_KEY)
    assert len([one for one in fields_of_before(providers, objects) if one.endswith(": label")]) == len(objects)
    assert dig(before, "spec.template.spec.nodeSelector") == {"of-before": "x"}

    if install is by_operator:
        source = {"url": providers.url("core-components.yaml")}
        reported_by_operator(providers, CORE_KEY, PREVIOUS, fetchConfig=source)
    core = at(providers, PREVIOUS)
    assert fields_of_before(providers, objects) == []
    deployment = providers.client.get(DEPLOYMENT, MANAGER_KEY)
    assert deployment["metadata"]["uid"] == before["metadata"]["uid"]
    assert dig(deployment, "metadata.annotations.by") == "hand"
    versions, requests = providers.versions(), providers.requests
    providers.reconcile(*CORE_KEY, resync=True)
    print("look at everything after a take-over:", providers.requests - requests, "requests")
    assert providers.versions() == versions

    known = {entry.identity for entry in inventory.load(dig(core, "status.resources"))}
    core = at(providers, CURRENT)
    assert providers.client.get(DEPLOYMENT, MANAGER_KEY)["metadata"]["uid"] == before["metadata"]["uid"]
    gone = known - {entry.identity for entry in inventory.load(dig(core, "status.resources"))}
    for resource, key in objects:
        there = providers.client.find(resource, key) is not None
        assert there is ((resource.group, resource.kind, *key) not in gone), f"{resource.kind} {key}"


def at(
    providers: Providers,
    version: str,
    key: tuple[ProviderKind, str, str] = CORE_KEY,
    file: str = "core-components.yaml",
    *,
    release: Callable[[str], Path] = reduced,
) -> Object:
    providers.releases.append(release(version))
    providers.apply(*key, version=version, fetchConfig={"url": providers.url(file)})
    return providers.until_ready(*key)


@pytest.fixture
def core(core: FakeProvider) -> FakeProvider:
    """Installs the core provider."""
    core.publish("v1.1.0")
    core.install("v1.1.0")
    return core


@pytest.mark.parametrize("install", [by_clusterctl, by_operator])
def test_providers_of_the_operator_are_adopted_from_its_downloads(
    providers: Providers, core: FakeProvider, install: Install
) -> None:
    """Without a request to the source; the downloads are deleted with their provider."""
    kind, of = (BOOTSTRAP, PROVIDERS[1]) if install is by_clusterctl else (INFRASTRUCTURE, PROVIDERS[3])
    key, namespace = (kind, of.name, "taken-over-system"), "taken-over-system"
    objects = installed(providers, PREVIOUS, install, of, namespace)
    [before] = providers.client.list(DEPLOYMENT, namespace)
    kept: list[tuple[Resource, Key]] = []
    if install is by_operator:
        reported = reported_by_operator(providers, key, PREVIOUS)
        kept = kept_by_operator(providers, reported, PREVIOUS, of.file)
        before_us = [providers.client.get(*place) for place in kept]
        providers.releases.clear()
        provider = providers.until_ready(*key)
        assert dig(provider, "status.target.source").startswith("ConfigMaps with ")
        assert [providers.client.get(*place) for place in kept] == before_us
    else:
        at(providers, PREVIOUS, key, of.file)
    assert fields_of_before(providers, objects) == []

    provider = at(providers, CURRENT, key, of.file)
    assert dig(provider, "status.installedVersion") == CURRENT
    [deployment] = providers.client.list(DEPLOYMENT, namespace)
    assert deployment["metadata"]["uid"] == before["metadata"]["uid"]
    assert fields_of_before(providers, objects) == []
    assert providers.listed(*key).items() <= providers.brought(of.label).items()

    providers.client.delete(kind.resource, Key(namespace, of.name))
    providers.reconcile(*key)
    until(lambda: providers.brought(of.label) == {}, "everything of it is gone")  # pods go with their Deployment
    until(lambda: not any(providers.client.find(*place) for place in kept), f"{kept} are gone")


def test_provider_of_the_real_clusterctl_is_adopted(providers: Providers, provider_plane: Path, tmp_path: Path) -> None:
    configuration = repository(tmp_path / "local", PREVIOUS, CURRENT)
    kubeconfig = local_control_plane.kubeconfig(provider_plane)
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
            core = at(providers, version, release=components)
            for entry in inventory.load(dig(core, "status.resources")):
                resource = providers.clients.discovery.resource(entry.api_version, entry.kind)
                assert resource is not None
                obj = providers.client.get(resource, Key(entry.namespace, entry.name))
                assert "clusterctl" not in {one["manager"] for one in obj["metadata"]["managedFields"]}, str(entry)
        assert providers.client.get(DEPLOYMENT, MANAGER_KEY)["metadata"]["uid"] == before["metadata"]["uid"]
        again = adopt.find(providers.client).providers
        assert [one.version for one in again] == [CURRENT]
