"""Starts `provider_wake` when the core provider becomes operational, or a referenced Secret or ConfigMap changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared import profiles
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.provider import CORE, GROUP, PLURALS, PROVIDER_LABEL, RESOURCES, additional_manifests, config_secret
from shared.api.resources import CONFIG_MAP, SECRET
from shared.event import is_reference
from shared.kube import Key, dig, key_of
from shared.providers import phases
from shared.providers.peers import is_operational
from shared.triggers import READ_CRDS, Referrer, Rule, Triggers, Watch


def key_if_operational(core: Mapping[str, Any]) -> Key | None:
    """Returns the key of an operational core provider, or of a bare reference, which does not show it; else None."""
    return key_of(core) if is_reference(core) or is_operational(core) else None


def secrets(provider: Mapping[str, Any]) -> Iterable[Key]:
    """Returns the key of the Secret that the provider references."""
    return filter(None, [config_secret(provider)])


def config_maps(provider: Mapping[str, Any]) -> Iterable[Key]:
    """Returns the keys of the ConfigMaps that the provider names or may select; an empty name stands for any."""
    selected = dig(provider, "spec.fetchConfig.selector") is not None
    return filter(None, [additional_manifests(provider), Key(key_of(provider).namespace, "") if selected else None])


_SECRET_REFERRERS = tuple(Referrer(resource, secrets) for resource in RESOURCES)
_CONFIG_MAP_REFERRERS = tuple(Referrer(resource, config_maps) for resource in RESOURCES)

# Secrets of Clusters and objects of providers themselves are never inputs of a provider.
_INPUTS = f"!{CLUSTER_NAME_LABEL},!{PROVIDER_LABEL}"

TRIGGERS = Triggers(
    name="provider_wake",
    profiles=profiles.PROVIDERS,
    watches=(
        Watch(
            CORE.resource,
            key=key_if_operational,
            fields=("status.conditions",),
            digest=is_operational,
            changes=("add", "update"),
        ),
        Watch(SECRET, changes=("add", "update"), reference=True, selector=_INPUTS, referenced_by=_SECRET_REFERRERS),
        Watch(
            CONFIG_MAP,
            changes=("add", "update"),
            reference=True,
            selector=f"!{PROVIDER_LABEL}",
            referenced_by=_CONFIG_MAP_REFERRERS,
        ),
    ),
    rules=(
        Rule(GROUP, PLURALS, ("get", "list")),
        # Selectors match the labels of a ConfigMap; a Secret is found by its name.
        Rule(CONFIG_MAP.group, (CONFIG_MAP.plural,), ("get",)),
        READ_CRDS,
    ),
    emits=(phases.event_type(phases.CHANGED),),
    reports=False,
)
