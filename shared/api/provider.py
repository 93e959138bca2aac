"""Cluster API Operator's seven provider kinds: what tells them apart, and the names that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.kube.resources import Key, Object, Resource, dig, key_of

GROUP = "operator.cluster.x-k8s.io"
CORE_NAME = "cluster-api"

FINALIZER = "provider.cluster.x-k8s.io"
HASH_ANNOTATION = f"{GROUP}/applied-spec-hash"
"""On the provider object: the hash of all that the installed objects were made from."""

COMPONENT_LABEL = "clusterctl.cluster.x-k8s.io"
PROVIDER_LABEL = "cluster.x-k8s.io/provider"
"""On every installed object, with the provider's label as its value."""


@dataclass(frozen=True)
class ProviderKind:
    """One of the seven. `word` is its name in ConfigMaps and artifacts, `prefix` begins the label of its providers."""

    resource: Resource
    short_name: str
    word: str
    prefix: str
    file: str
    """The components file of a release."""

    @property
    def kind(self) -> str:
        """Also clusterctl's name for the type."""
        return self.resource.kind

    @property
    def is_core(self) -> bool:
        return self.word == "core"

    def label(self, name: str) -> str:
        """What the objects of this kind's provider `name` carry as `cluster.x-k8s.io/provider`."""
        return name if self.is_core else f"{self.prefix}-{name}"


def _kind(kind: str, short_name: str, word: str, *, prefix: str = "", file: str = "") -> ProviderKind:
    resource = Resource(GROUP, "v1alpha2", kind, kind.lower() + "s")
    return ProviderKind(resource, short_name, word, prefix or word, f"{file or word}-components.yaml")


CORE = _kind("CoreProvider", "cacp", "core")
BOOTSTRAP = _kind("BootstrapProvider", "cabp", "bootstrap")
CONTROL_PLANE = _kind("ControlPlaneProvider", "cacpp", "control-plane")
INFRASTRUCTURE = _kind("InfrastructureProvider", "caip", "infrastructure")
IPAM = _kind("IPAMProvider", "caipamp", "ipam")
RUNTIME_EXTENSION = _kind(
    "RuntimeExtensionProvider", "carep", "runtimeextension", prefix="runtime-extension", file="runtime-extensions"
)
ADDON = _kind("AddonProvider", "caap", "addon")

KINDS = (CORE, BOOTSTRAP, CONTROL_PLANE, INFRASTRUCTURE, IPAM, RUNTIME_EXTENSION, ADDON)
"""In the order in which clusterctl lists them, and in which they are best installed."""

BY_KIND = {kind.kind: kind for kind in KINDS}


def kind_of(provider: Mapping[str, Any]) -> ProviderKind:
    """Of a provider object, or of a reference to one. Raises `KeyError` for any other kind."""
    return BY_KIND[provider["kind"]]


def label_of(provider: Mapping[str, Any]) -> str:
    return kind_of(provider).label(key_of(provider).name)


def selector_of(provider: Mapping[str, Any]) -> str:
    """Selects what carries that label."""
    return f"{PROVIDER_LABEL}={label_of(provider)}"


def version_of(provider: Mapping[str, Any]) -> str:
    """What is asked for; empty where it is left to us."""
    return str(dig(provider, "spec.version", ""))


def installed_version(provider: Mapping[str, Any]) -> str:
    return str(dig(provider, "status.installedVersion", ""))


def config_map_name(provider: Mapping[str, Any], version: str) -> str:
    """Of the ConfigMap that holds a downloaded version, such as `infrastructure-docker-v1.12.0`."""
    return f"{kind_of(provider).word}-{key_of(provider).name}-{version}"


def download_labels(provider: Mapping[str, Any], version: str = "") -> dict[str, str]:
    """What a ConfigMap with a downloaded version carries; without a version, what all of them do."""
    labels = {
        f"{FINALIZER}/type": kind_of(provider).word,
        f"{FINALIZER}/name": key_of(provider).name,
        "managed-by.operator.cluster.x-k8s.io": "true",
    }
    return labels | ({f"{FINALIZER}/version": version} if version else {})


def config_secret(provider: Mapping[str, Any]) -> Key | None:
    """The Secret with variables and credentials; in the provider's own namespace unless it says otherwise."""
    return _reference(provider, dig(provider, "spec.configSecret"))


def additional_manifests(provider: Mapping[str, Any]) -> Key | None:
    """The ConfigMap whose key `manifests` is appended to the components."""
    return _reference(provider, dig(provider, "spec.additionalManifests"))


def _reference(provider: Mapping[str, Any], reference: Object | None) -> Key | None:
    if not reference or not reference.get("name"):
        return None
    return Key(reference.get("namespace") or key_of(provider).namespace, reference["name"])
