"""Cluster API Operator's seven provider kinds, and the names that are derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.kube.resources import Key, Resource, dig, key_of

GROUP = "operator.cluster.x-k8s.io"
CORE_NAME = "cluster-api"

FINALIZER = "provider.cluster.x-k8s.io"
LABEL_PREFIX = "provider.cluster.x-k8s.io"
"""The prefix of Cluster API Operator's labels and annotations on the ConfigMaps of downloaded versions."""

COMPONENT_LABEL = "clusterctl.cluster.x-k8s.io"
"""The label, with an empty value, by which clusterctl finds installed objects."""
PROVIDER_LABEL = "cluster.x-k8s.io/provider"
"""The label of every installed object; `ProviderKind.label` returns its value."""


@dataclass(frozen=True)
class ProviderKind:
    """One of the seven kinds.

    `type_name` stands for the kind in the names and labels of ConfigMaps and in OCI artifacts. Values of
    `PROVIDER_LABEL` begin with `prefix`, except for the core provider.
    """

    resource: Resource
    short_name: str
    type_name: str
    prefix: str
    file: str
    """The name of the components file in a release."""

    @property
    def kind(self) -> str:
        """The kind, which is also clusterctl's name for the provider type."""
        return self.resource.kind

    @property
    def is_core(self) -> bool:
        """Whether this is CoreProvider."""
        return self.type_name == "core"

    def label(self, name: str) -> str:
        """Returns the value of `PROVIDER_LABEL` for the provider `name` of this kind."""
        return name if self.is_core else f"{self.prefix}-{name}"


def _kind(kind: str, short_name: str, type_name: str, *, prefix: str = "", file: str = "") -> ProviderKind:
    resource = Resource(GROUP, "v1alpha2", kind, kind.lower() + "s")
    return ProviderKind(resource, short_name, type_name, prefix or type_name, f"{file or type_name}-components.yaml")


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
"""The kinds in clusterctl's order, which is also the best order of installation."""

RESOURCES = tuple(kind.resource for kind in KINDS)
PLURALS = tuple(resource.plural for resource in RESOURCES)

BY_KIND = {kind.kind: kind for kind in KINDS}


def provider_of_label(label: str) -> tuple[ProviderKind, str] | None:
    """Returns kind and name of the provider whose objects have this label, such as `infrastructure-docker`."""
    for kind in KINDS:
        if kind.is_core and label == CORE_NAME:
            return kind, label
        if not kind.is_core and label.startswith(f"{kind.prefix}-") and len(label) > len(kind.prefix) + 1:
            return kind, label.removeprefix(f"{kind.prefix}-")
    return None


def kind_of(provider: Mapping[str, Any]) -> ProviderKind:
    """Returns the kind of a provider object, or of a reference to one. Raises `KeyError` for any other kind."""
    return BY_KIND[provider["kind"]]


def label_of(provider: Mapping[str, Any]) -> str:
    """Returns the value of `PROVIDER_LABEL` for the provider's objects."""
    return kind_of(provider).label(key_of(provider).name)


def selector_of(provider: Mapping[str, Any]) -> str:
    """Returns the label selector of the provider's objects."""
    return f"{PROVIDER_LABEL}={label_of(provider)}"


def spec_version(provider: Mapping[str, Any]) -> str:
    """Returns `spec.version`; empty if the source's default version is to be used."""
    return str(dig(provider, "spec.version", ""))


def installed_version(provider: Mapping[str, Any]) -> str:
    """Returns `status.installedVersion`; empty if there is none."""
    return str(dig(provider, "status.installedVersion", ""))


def config_map_name(provider: Mapping[str, Any], version: str) -> str:
    """Returns the name of the ConfigMap that holds a downloaded version, such as `infrastructure-docker-v1.12.0`."""
    return f"{kind_of(provider).type_name}-{key_of(provider).name}-{version}"


def download_labels(provider: Mapping[str, Any], version: str = "") -> dict[str, str]:
    """Returns the labels of the ConfigMap with a downloaded version.

    If `version` is empty, these are the labels that the ConfigMaps of all versions have in common.
    """
    labels = {
        f"{LABEL_PREFIX}/type": kind_of(provider).type_name,
        f"{LABEL_PREFIX}/name": key_of(provider).name,
        "managed-by.operator.cluster.x-k8s.io": "true",
    }
    return labels | ({f"{LABEL_PREFIX}/version": version} if version else {})


def config_secret(provider: Mapping[str, Any]) -> Key | None:
    """Returns the key of the Secret with variables and credentials; by default in the provider's namespace."""
    return _reference(provider, "spec.configSecret")


def additional_manifests(provider: Mapping[str, Any]) -> Key | None:
    """Returns the key of the ConfigMap whose entry `manifests` is added to the components."""
    return _reference(provider, "spec.additionalManifests")


def _reference(provider: Mapping[str, Any], path: str) -> Key | None:
    """Returns the key in the reference at a path; None without one, or if it is not of texts."""
    name, namespace = dig(provider, f"{path}.name"), dig(provider, f"{path}.namespace") or key_of(provider).namespace
    return Key(namespace, name) if name and isinstance(name, str) and isinstance(namespace, str) else None
