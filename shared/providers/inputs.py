"""The inputs that determine a provider's objects, besides its components: spec, Secret and ConfigMaps.

Hashes of the inputs show whether they have changed since the installation, or since the fetch of the components.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shared.api import provider as provider_api
from shared.api.resources import CONFIG_MAP, SECRET
from shared.clients import Clients
from shared.components.bundles import Bundle
from shared.download.access import hosts_of
from shared.kube import Object, dig, key_of
from shared.kube.selectors import as_text

from .reconciled import is_installed, object_hash


@dataclass(frozen=True)
class Inputs:
    """The content of the objects that a provider references."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The decoded data of the Secret in `spec.configSecret`."""
    hosts: Collection[str] | None = None
    """The hosts that this Secret names for its credentials; None if it names none."""
    additional: str = ""
    """YAML from `spec.additionalManifests`, appended to the components."""
    config_maps: Sequence[Object] = ()
    """The ConfigMaps that `spec.fetchConfig.selector` selects, sorted by name."""
    problem: str = ""
    """The name of a missing referenced object; the other fields are then empty."""


def read(clients: Clients, provider: Object) -> Inputs:
    """Reads the objects that the provider references, with one request for each.

    Raises:
        ApiError: The API server does not answer, or rejects a request.
    """
    variables: Mapping[str, str] = {}
    hosts = None
    additional = ""
    if key := provider_api.config_secret(provider):
        secret = clients.management.find(SECRET, key)
        if secret is None:
            return Inputs(problem=f"Secret {key} (spec.configSecret) does not exist")
        variables, hosts = decode_secret(secret), hosts_of(secret)
    if key := provider_api.additional_manifests(provider):
        config_map = clients.management.find(CONFIG_MAP, key)
        if config_map is None:
            return Inputs(problem=f"ConfigMap {key} (spec.additionalManifests) does not exist")
        additional = str(dig(config_map, "data.manifests", ""))
    return Inputs(variables, hosts, additional, _selected(clients, provider))


def decode_secret(secret: Mapping[str, Any]) -> dict[str, str]:
    """Returns the Secret's data as text, without values that are not base64 or not UTF-8."""
    values = {}
    for name, text in (dig(secret, "data") or {}).items():
        try:
            values[name] = base64.b64decode(text, validate=True).decode()
        except (binascii.Error, ValueError):
            continue
    return values


def _selected(clients: Clients, provider: Object) -> Sequence[Object]:
    selector = dig(provider, "spec.fetchConfig.selector")
    if selector is None:
        return ()
    found = clients.management.list(CONFIG_MAP, key_of(provider).namespace, selector=as_text(selector))
    return sorted(found, key=key_of)


def inputs_hash(provider: Object, inputs: Inputs, extra: str = "") -> str:
    """Returns the SHA-256 of all inputs, in hex.

    Args:
        provider: The provider object; its uid, its spec and this project's annotations are inputs.
        inputs: The content of the objects that the provider references.
        extra: Anything else that changes the objects, such as the image overrides of the configuration.
    """
    parts = [object_hash(provider), dict(inputs.variables), inputs.additional, _content(inputs), extra]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def source_hash(provider: Object, inputs: Inputs) -> str:
    """Returns the SHA-256, in hex, of the inputs that choose the components to fetch; credentials are left out."""
    parts = [provider_api.spec_version(provider), dig(provider, "spec.fetchConfig"), _content(inputs)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _content(inputs: Inputs) -> list[Any]:
    return [[key_of(found), found.get("data"), found.get("binaryData")] for found in inputs.config_maps]


def are_installed(provider: Object, digest: str, now: datetime) -> bool:
    """Returns whether the objects of the inputs with this `inputs_hash` are installed."""
    return is_installed(provider, now) and dig(provider, "status.target.inputs") == digest


@dataclass(frozen=True)
class FetchedComponents:
    """The stored components of one version."""

    bundle: Bundle
    contract: str
    """The Cluster API contract of this version, such as `v1beta2` (metadata.yaml, `releaseSeries`)."""


def load_components(clients: Clients, provider: Object, inputs: Inputs) -> FetchedComponents | None:
    """Loads the components that `status.target` names.

    Returns None if version or source in the spec have changed since the fetch, or if storage has lost the components.

    Raises:
        StorageError: Storage cannot be read.
    """
    target = dig(provider, "status.target", {})
    if not target.get("digest") or target.get("sourceHash") != source_hash(provider, inputs):
        return None
    bundle = clients.components.load(target["digest"])
    return FetchedComponents(bundle, target.get("contract", "")) if bundle else None
