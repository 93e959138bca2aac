"""Sources of providers: other URLs, registries, ConfigMaps by selector, and stored downloads."""

from __future__ import annotations

import base64
import gzip

import pytest

from shared.api.conditions import get_condition
from shared.api.provider import BOOTSTRAP, CORE, INFRASTRUCTURE
from shared.api.resources import CONFIG_MAP, DEPLOYMENT
from shared.components.repositories import Files
from shared.components.repositories.oci import ARTIFACT_TYPE, layers_of
from shared.download.access import Access
from shared.download.registry import Registry
from shared.kube import Key, Object, dig
from tests.support.fake_provider import MANAGER, SPACE, FakeProvider
from tests.support.provider_releases import METADATA, config_map, deployment, publish, text
from tests.support.provider_world import Providers


def inputs_hash(core: FakeProvider) -> str:
    return str(dig(core.object, "status.target.inputs"))


def test_changed_source_of_the_same_version_is_installed(
    core: FakeProvider, providers: Providers, registry: str
) -> None:
    """With a stored download of the former source, too."""
    annotations = {"capi-functions.dev/keep-download": "config-map"}
    for repository, content in (("org/one", "1"), ("org/two", "2")):
        publish(core.folder, "v1.1.0", [config_map("cluster-api", content)], repository=repository)
        core.install("v1.1.0", annotations, fetchConfig={"url": providers.url(CORE.file, repository=repository)})
        assert core.value == content
    push(registry, "v1.1.0", "3")
    core.install("v1.1.0", annotations, fetchConfig={"oci": f"http://{registry}/org/core"})
    assert core.value == "3"
    kept = providers.client.get(CONFIG_MAP, Key(SPACE, "core-cluster-api-v1.1.0"))
    assert dig(kept, ("metadata", "annotations", "provider.cluster.x-k8s.io/source")) == f"http://{registry}/org/core"


def push(registry: str, tag: str, content: str) -> None:
    layers = layers_of("core", "cluster-api", tag, Files(METADATA, text([config_map("cluster-api", content)])))
    with Registry(registry, "org/core", Access(), plain=True) as opened:
        opened.push(tag, layers, artifact_type=ARTIFACT_TYPE)


def test_one_artifact_serves_several_providers(core: FakeProvider, registry: str) -> None:
    """One of them is in the catalog, with another source."""
    core.publish("v1.1.0")
    core.install("v1.1.0")
    layers = [
        layer
        for name in ("docker", "my-own")
        for version in ("v0.0.1", "v0.0.2")
        for layer in layers_of(
            "infrastructure",
            name,
            version,
            Files(METADATA.replace("major: 1", "major: 0", 1), text([config_map(name, version)])),
        )
    ]
    with Registry(registry, "org/both", Access(), plain=True) as opened:
        opened.push("any", layers, artifact_type=ARTIFACT_TYPE)
    for version in ("v0.0.1", "v0.0.2"):
        for name in ("docker", "my-own"):
            config = {"oci": f"http://{registry}/org/both:any"}
            core.other(INFRASTRUCTURE, name).install(version, fetchConfig=config)
            assert core.value_of(name) == version


def selected(version: str, content: str, labels: dict[str, str], *, packed: bool = False, name: str = "") -> Object:
    components = text([config_map("cluster-api", content), deployment("made-up", version)])
    metadata: Object = {"name": name or version, "namespace": SPACE, "labels": labels}
    if name:
        metadata["labels"] = {**labels, "provider.cluster.x-k8s.io/version": version}
    config: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"metadata": METADATA}}
    if packed:
        metadata["annotations"] = {"provider.cluster.x-k8s.io/compressed": "true"}
        config["binaryData"] = {"components": base64.b64encode(gzip.compress(components.encode())).decode()}
    else:
        config["data"]["components"] = components
    return config


def put(providers: Providers, *config_maps: Object) -> None:
    providers.namespace(SPACE)
    for each in config_maps:
        providers.client.apply(CONFIG_MAP, each, manager="user")


@pytest.mark.parametrize(("wanted", "upgraded"), [("v999.9.2", None), ("v999.9.3", "True"), ("v999.9.1", "True")])
def test_selector_decides_upgrade_and_downgrade(
    core: FakeProvider, providers: Providers, wanted: str, upgraded: str | None
) -> None:
    labels = {"provider-components": "core"}
    put(providers, *(selected(version, version, labels) for version in ("v999.9.1", "v999.9.2", "v999.9.3")))
    source = {"selector": {"matchLabels": labels}}
    core.install("v999.9.2", fetchConfig=source)
    provider = core.install(wanted, deployment={"replicas": 2}, fetchConfig=source)
    assert core.installed == core.value == wanted
    assert dig(providers.client.get(DEPLOYMENT, MANAGER), "spec.replicas") == 2
    assert (get_condition(dig(provider, "status.conditions"), "ProviderUpgraded") or {}).get("status") == upgraded


def test_changed_config_map_of_a_selector_is_installed(core: FakeProvider, providers: Providers) -> None:
    labels = {"is": "mine"}
    put(providers, selected("v1.1.0", "first", labels), selected("v1.2.0", "other", {"is": "not"}))
    source = {"selector": {"matchLabels": labels}}
    core.install(None, fetchConfig=source)
    first = inputs_hash(core)
    put(providers, selected("v1.2.0", "other still", {"is": "not"}))
    core.until_ready()
    assert inputs_hash(core) == first
    put(providers, selected("v1.1.0", "edited", labels))
    core.until_ready()
    assert core.value == "edited"
    second = inputs_hash(core)
    assert second != first
    # Several ConfigMaps may match if they have different versions.
    put(providers, selected("v1.3.0", "newer", labels))
    core.until_ready()
    assert core.value == "edited"
    put(providers, selected("v1.1.0", "again", labels, name="another"))
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert "another" in message
    assert "v1.1.0" in message
    providers.client.delete(CONFIG_MAP, Key(SPACE, "another"))
    core.until_ready()


def test_site_without_internet_access_installs_and_upgrades_from_config_maps(
    core: FakeProvider, providers: Providers
) -> None:
    """Compressed ConfigMaps for all; version and selector change together, of the core provider first."""
    providers.releases.clear()
    custom = core.other(BOOTSTRAP, "kubeadm-custom")
    for word in ("core", "bootstrap"):
        for version in ("v1.1.0", "v1.2.0"):
            labels = {"for": word, "version": version}
            found = selected(version, version, labels, packed=True, name=f"{word}-{version}")
            components = text([config_map(word, version), deployment(word, version)])
            found["binaryData"]["components"] = base64.b64encode(gzip.compress(components.encode())).decode()
            put(providers, found)
    for version in ("v1.1.0", "v1.2.0"):
        for each, word in ((core, "core"), (custom, "bootstrap")):
            each.install(version, fetchConfig={"selector": {"matchLabels": {"for": word, "version": version}}})
            assert each.installed == each.value_of(word) == version
    for each in (core, custom):
        states = {entry["type"]: entry["status"] for entry in dig(each.object, "status.conditions")}
        assert [states[type_] for type_ in ("Ready", "ProviderInstalled", "ProviderUpgraded")] == ["True"] * 3


def test_kept_download_serves_a_recreated_provider(core: FakeProvider, providers: Providers) -> None:
    core.publish("v1.1.0")
    core.install("v1.1.0")
    large = text([config_map("docker", "v1.1.0")]) + "# " + "many words " * 120_000
    keeper = core.other(INFRASTRUCTURE, "docker")
    keeper.publish("v1.1.0", large)
    keeper.install("v1.1.0", {"capi-functions.dev/keep-download": "config-map"})
    name = Key(SPACE, "infrastructure-docker-v1.1.0")
    kept = providers.client.get(CONFIG_MAP, name)
    labels = {"provider.cluster.x-k8s.io/type": "infrastructure", "provider.cluster.x-k8s.io/name": "docker"}
    assert dig(kept, ("metadata", "annotations", "provider.cluster.x-k8s.io/compressed")) == "true"
    assert dig(kept, "binaryData.components")
    providers.releases.clear()
    own = {"patch": "metadata: {name: my-own}"}  # the ConfigMap that they bring can be only one's
    mine = core.other(INFRASTRUCTURE, "my-own")
    found = mine.install(None, fetchConfig={"selector": {"matchLabels": labels}}, patches=[own])
    assert dig(found, "spec.version") == "v1.1.0"
    keeper.delete()
    assert providers.client.find(CONFIG_MAP, name) is None
