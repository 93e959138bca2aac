"""Less common kinds of providers: installed, recorded, upgraded and deleted."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import pytest

from shared.api.provider import ADDON, CONTROL_PLANE, IPAM, PROVIDER_LABEL, RUNTIME_EXTENSION, ProviderKind
from shared.api.resources import CLUSTERCTL_PROVIDER, CONFIG_MAP, DEPLOYMENT
from shared.kube import Key, Object, dig
from tests.support.fake_provider import FakeProvider
from tests.support.provider_releases import METADATA, config_map, deployment, publish, text, whole

KINDS = (
    (IPAM, "my-ipam", "ipam-my-ipam", "ipam-components.yaml"),
    (RUNTIME_EXTENSION, "my-hooks", "runtime-extension-my-hooks", "runtime-extensions-components.yaml"),
    (ADDON, "my-addons", "addon-my-addons", "addon-components.yaml"),
)


@pytest.fixture
def core(core: FakeProvider) -> FakeProvider:
    core.publish("v1.1.0")
    core.install("v1.1.0")
    return core


@pytest.mark.parametrize(("kind", "name", "label", "file"), KINDS, ids=[name for _, name, _, _ in KINDS])
def test_provider_of_each_kind_is_installed_upgraded_and_deleted(
    core: FakeProvider, kind: ProviderKind, name: str, label: str, file: str
) -> None:
    providers, namespace = core.providers, f"{name}-system"
    manager = Key(namespace, f"{name}-controller-manager")
    for version in ("v1.1.0", "v1.2.0"):
        publish(core.folder, version, whole(name, version), kind, f"org/{name}")
        assert (core.folder / f"org/{name}/releases/download/{version}/{file}").exists()
        url = providers.url(file, repository=f"org/{name}")
        providers.apply(kind, name, namespace, version=version, fetchConfig={"url": url})
        provider = providers.until_ready(kind, name, namespace)
        assert dig(provider, "status.installedVersion") == version
        deployed = providers.client.get(DEPLOYMENT, manager)
        assert dig(deployed, "status.availableReplicas") == 1
        assert dig(deployed, ("metadata", "labels", PROVIDER_LABEL)) == label
        assert dig(deployed, "spec.template.spec.containers")[0]["image"].endswith(version)
        record = providers.client.get(CLUSTERCTL_PROVIDER, Key(namespace, label))
        assert (record["providerName"], record["type"], record["version"]) == (name, kind.kind, version)
    assert providers.condition(provider, "ProviderUpgraded")["status"] == "True"
    providers.client.delete(kind.resource, Key(namespace, name))
    providers.reconcile(kind, name, namespace)
    assert providers.client.find(kind.resource, Key(namespace, name)) is None
    assert providers.brought(label) == {}


def test_pinned_pre_release_of_the_catalog_is_installed(core: FakeProvider) -> None:
    repository, version = "kubernetes-sigs/cluster-api-addon-provider-helm", "v0.4.0-rc.1"
    publish(core.folder, version, whole("caaph", version), ADDON, repository)
    _tell_of_major_0(core.folder / repository / "releases/download" / version)
    key = (ADDON, "helm", "caaph-system")
    core.providers.apply(*key, version=version)
    assert dig(core.providers.until_ready(*key), "status.installedVersion") == version
    manager = core.providers.client.get(DEPLOYMENT, Key("caaph-system", "caaph-controller-manager"))
    assert dig(manager, "status.availableReplicas") == 1


def test_provider_of_the_catalog_takes_the_version_of_its_url(core: FakeProvider) -> None:
    """The version is written into the spec."""
    repository, version = "kubernetes-sigs/cluster-api-ipam-provider-in-cluster", "v1.1.0"
    publish(core.folder, version, whole("caip-in-cluster", version), IPAM, repository)
    key = (IPAM, "in-cluster", "caip-in-cluster-system")
    url = core.providers.url(IPAM.file, version, repository)
    core.providers.apply(*key, fetchConfig={"url": url})
    provider = core.providers.until_ready(*key)
    assert (dig(provider, "spec.version"), dig(provider, "status.installedVersion")) == (version, version)
    core.providers.client.delete(IPAM.resource, Key("caip-in-cluster-system", "in-cluster"))
    core.providers.reconcile(*key)
    assert core.providers.brought("ipam-in-cluster") == {}


def _tell_of_major_0(release: Path) -> None:
    (release / "metadata.yaml").write_text(METADATA.replace("major: 1", "major: 0"))


def test_control_plane_is_installed_from_compressed_config_maps(core: FakeProvider) -> None:
    """The core provider, too. Version and selector change together."""
    providers = core.providers
    providers.releases.clear()
    custom = (CONTROL_PLANE, "kubeadm-custom", "control-plane-test")
    for version in ("v1.2.0", "v1.3.0"):
        for kind, name, namespace in (core.key, custom):
            selector = {"for": kind.type_name, "version": version}
            objects = [config_map(kind.type_name, version), deployment(kind.type_name, version)]
            providers.namespace(namespace)
            packed = _packed(f"{kind.type_name}-{version}", namespace, selector, version, objects)
            providers.client.apply(CONFIG_MAP, packed, manager="user")
            providers.apply(kind, name, namespace, version=version, fetchConfig={"selector": {"matchLabels": selector}})
            provider = providers.until_ready(kind, name, namespace)
            assert dig(provider, "status.installedVersion") == version
            found = providers.client.get(CONFIG_MAP, Key(namespace, kind.type_name))
            assert dig(found, "data.value") == version
    states = {entry["type"]: entry["status"] for entry in dig(provider, "status.conditions")}
    assert [states[type_] for type_ in ("Ready", "ProviderInstalled", "ProviderUpgraded")] == ["True"] * 3
    assert providers.brought("control-plane-kubeadm-custom").keys() >= providers.listed(*custom).keys()
    providers.client.delete(CONTROL_PLANE.resource, Key("control-plane-test", "kubeadm-custom"))
    providers.reconcile(*custom)
    assert providers.brought("control-plane-kubeadm-custom") == {}
    assert core.object["status"]["installedVersion"] == "v1.3.0"


def _packed(name: str, namespace: str, labels: dict[str, str], version: str, objects: list[Object]) -> Object:
    packed = base64.b64encode(gzip.compress(text(objects).encode())).decode()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {**labels, "provider.cluster.x-k8s.io/version": version},
            "annotations": {"provider.cluster.x-k8s.io/compressed": "true"},
        },
        "data": {"metadata": METADATA},
        "binaryData": {"components": packed},
    }
