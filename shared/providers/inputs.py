"""Everything that a provider's objects are made from besides its components, and the hash that tells a change of it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from shared.api import provider as provider_api
from shared.api.conditions import is_true, rfc3339
from shared.api.resources import CONFIG_MAP, SECRET
from shared.clients import Clients
from shared.kube import Object, dig, has_finalizer, key_of
from shared.kube.selectors import as_text

from .annotations import updated_types

_FORMAT = "1"
"""Goes up when the same inputs lead to other objects, so that a new version of ours rolls out by itself."""


@dataclass(frozen=True)
class Inputs:
    """`problem` names a referenced object that is not there; nothing can be made then."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The config Secret's, decoded."""
    additional: str = ""
    """YAML that is appended to the components."""
    config_maps: Sequence[Object] = ()
    """What `spec.fetchConfig.selector` finds, by name."""
    problem: str = ""


def read(clients: Clients, provider: Object) -> Inputs:
    """One read for each reference that the provider has. Raises `ApiError`."""
    variables: Mapping[str, str] = {}
    additional = ""
    if key := provider_api.config_secret(provider):
        secret = clients.management.find(SECRET, key)
        if secret is None:
            return Inputs(problem=f"Secret {key} (spec.configSecret) does not exist")
        variables = decoded(secret)
    if key := provider_api.additional_manifests(provider):
        config_map = clients.management.find(CONFIG_MAP, key)
        if config_map is None:
            return Inputs(problem=f"ConfigMap {key} (spec.additionalManifests) does not exist")
        additional = str(dig(config_map, "data.manifests", ""))
    return Inputs(variables, additional, _selected(clients, provider))


def decoded(secret: Mapping[str, Any]) -> dict[str, str]:
    """The Secret's values as text; what is no base64 or no UTF-8 is left out."""
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


def applied_hash(provider: Object, inputs: Inputs, extra: str = "") -> str:
    """SHA-256 of all inputs; `extra` is what else decides, such as the catalog's overrides.

    Salted with the object's uid: the same values elsewhere give another hash, and one made anew trusts no old one.
    """
    parts = [
        _FORMAT,
        dig(provider, "metadata.uid", ""),
        dig(provider, "spec", {}),
        updated_types(provider),
        dict(inputs.variables),
        inputs.additional,
        _content(inputs),
        extra,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def asked_hash(provider: Object, inputs: Inputs) -> str:
    """SHA-256 of what decides which components are fetched, credentials apart."""
    parts = [provider_api.version_of(provider), dig(provider, "spec.fetchConfig"), _content(inputs)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _content(inputs: Inputs) -> list[Any]:
    return [[key_of(found), found.get("data"), found.get("binaryData")] for found in inputs.config_maps]


def is_installed(provider: Object, digest: str) -> bool:
    """The gate: what was made from inputs of this hash is in the cluster, as far as the provider object tells.

    Where the certificates are ours, it opens once they are to be renewed.
    """
    renewal = dig(provider, "status.target.renewAt", "")
    return (
        not (renewal and renewal <= rfc3339(datetime.now(UTC)))
        and dig(provider, ("metadata", "annotations", provider_api.HASH_ANNOTATION)) == digest
        and bool(provider_api.version_of(provider))
        and provider_api.installed_version(provider) == provider_api.version_of(provider)
        and dig(provider, "status.observedGeneration") == dig(provider, "metadata.generation")
        and has_finalizer(provider, provider_api.FINALIZER)
        and is_true(dig(provider, "status.conditions"), "PreflightCheckPassed")
        and is_true(dig(provider, "status.conditions"), "ProviderInstalled")
    )
