"""Names that Cluster API Operator and clusterctl derive from a provider object: other programs find objects by them."""

from __future__ import annotations

import pytest

from shared.api import provider as api
from shared.kube import Key, Object
from tests.support.provider_objects import provider

DOCKER = provider(api.INFRASTRUCTURE, "docker", "capd-system")


@pytest.mark.parametrize(
    ("kind", "name", "plural", "label", "file"),
    [
        (api.CORE, "cluster-api", "coreproviders", "cluster-api", "core-components.yaml"),
        (api.BOOTSTRAP, "kubeadm", "bootstrapproviders", "bootstrap-kubeadm", "bootstrap-components.yaml"),
        (
            api.CONTROL_PLANE,
            "kubeadm",
            "controlplaneproviders",
            "control-plane-kubeadm",
            "control-plane-components.yaml",
        ),
        (
            api.INFRASTRUCTURE,
            "docker",
            "infrastructureproviders",
            "infrastructure-docker",
            "infrastructure-components.yaml",
        ),
        (api.IPAM, "in-cluster", "ipamproviders", "ipam-in-cluster", "ipam-components.yaml"),
        (
            api.RUNTIME_EXTENSION,
            "hook",
            "runtimeextensionproviders",
            "runtime-extension-hook",
            "runtime-extensions-components.yaml",
        ),
        (api.ADDON, "helm", "addonproviders", "addon-helm", "addon-components.yaml"),
    ],
)
def test_each_kind_has_its_names(kind: api.ProviderKind, name: str, plural: str, label: str, file: str) -> None:
    obj = provider(kind, name)
    assert (kind.resource.plural, kind.resource.api_version) == (plural, "operator.cluster.x-k8s.io/v1alpha2")
    assert (api.kind_of(obj), kind.file, kind.is_core) == (kind, file, kind is api.CORE)
    assert (api.label_of(obj), api.selector_of(obj)) == (label, f"cluster.x-k8s.io/provider={label}")


def test_another_kind_is_no_provider() -> None:
    with pytest.raises(KeyError):
        api.kind_of({"kind": "Cluster"})


def test_download_is_found_by_name_and_labels() -> None:
    labels = {
        "provider.cluster.x-k8s.io/type": "infrastructure",
        "provider.cluster.x-k8s.io/name": "docker",
        "managed-by.operator.cluster.x-k8s.io": "true",
    }
    assert api.config_map_name(DOCKER, "v1.12.0") == "infrastructure-docker-v1.12.0"
    assert api.download_labels(DOCKER) == labels
    assert api.download_labels(DOCKER, "v1") == labels | {"provider.cluster.x-k8s.io/version": "v1"}


@pytest.mark.parametrize(
    ("obj", "wanted", "installed"),
    [(provider(), "", ""), (provider(version="v2", installed="v1"), "v2", "v1")],
    ids=["newest, none installed", "an upgrade"],
)
def test_versions_of_a_provider(obj: Object, wanted: str, installed: str) -> None:
    assert (api.spec_version(obj), api.installed_version(obj)) == (wanted, installed)


@pytest.mark.parametrize(
    ("reference", "key"),
    [
        ({"name": "x"}, Key("capi-system", "x")),
        ({"name": "x", "namespace": "other"}, Key("other", "x")),
        ({"name": ""}, None),
        ({"namespace": "other"}, None),
        ({}, None),
        (None, None),
    ],
    ids=["in its namespace", "in another", "empty name", "no name", "empty", "unset"],
)
def test_references_of_a_provider_need_a_name(reference: Object | None, key: Key | None) -> None:
    assert api.config_secret(provider(configSecret=reference)) == key
    assert api.additional_manifests(provider(additionalManifests=reference)) == key


def test_references_of_a_provider_are_distinguished() -> None:
    obj = provider(configSecret={"name": "secret"}, additionalManifests={"name": "manifests"})
    assert api.config_secret(obj) == Key("capi-system", "secret")
    assert api.additional_manifests(obj) == Key("capi-system", "manifests")
