"""Decides which providers a change affects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.api import provider as provider_api
from shared.api.conditions import is_true
from shared.api.provider import CORE
from shared.api.resources import CONFIG_MAP, SECRET
from shared.kube import Key, Object, deleting, dig, key_of
from shared.kube.selectors import selects
from shared.providers.peers import is_operational
from shared.providers.status import PREFLIGHT_CHECK_PASSED


def affected_providers(changed: Mapping[str, Any], providers: Iterable[Object]) -> list[Object]:
    """Returns the providers that reference this Secret or ConfigMap, or that wait for this core provider to run."""
    alive = [provider for provider in providers if not deleting(provider)]
    match changed["kind"]:
        case SECRET.kind:
            return [provider for provider in alive if provider_api.config_secret(provider) == key_of(changed)]
        case CONFIG_MAP.kind:
            return [provider for provider in alive if _references(provider, changed)]
        case CORE.kind if is_operational(changed):
            return [
                provider
                for provider in alive
                if provider["kind"] != CORE.kind and not _preflight_check_passed(provider)
            ]
    return []


def may_reference(provider: Object, config_map: Key) -> bool:
    """Returns whether the provider names this ConfigMap, or has a selector for ConfigMaps of its namespace."""
    if provider_api.additional_manifests(provider) == config_map:
        return True
    has_selector = dig(provider, "spec.fetchConfig.selector") is not None
    return has_selector and key_of(provider).namespace == config_map.namespace


def _references(provider: Object, config_map: Mapping[str, Any]) -> bool:
    """Returns whether the provider names this ConfigMap, or selects it by its labels."""
    key, selector = key_of(config_map), dig(provider, "spec.fetchConfig.selector", {})
    named = provider_api.additional_manifests(provider) == key
    return may_reference(provider, key) and (named or selects(selector, dig(config_map, "metadata.labels", {})))


def _preflight_check_passed(provider: Object) -> bool:
    """Returns whether the preflight condition is True for any generation."""
    return is_true(dig(provider, "status.conditions"), PREFLIGHT_CHECK_PASSED)
