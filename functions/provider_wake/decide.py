"""Which providers a change concerns."""

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


def concerned(changed: Mapping[str, Any], providers: Iterable[Object]) -> list[Object]:
    """Those whose Secret or ConfigMap this is; or that wait for this core provider, now that it works."""
    alive = [provider for provider in providers if not deleting(provider)]
    match changed["kind"]:
        case SECRET.kind:
            return [provider for provider in alive if provider_api.config_secret(provider) == key_of(changed)]
        case CONFIG_MAP.kind:
            return [provider for provider in alive if _names(provider, changed)]
        case CORE.kind if is_operational(changed):
            return [provider for provider in alive if provider["kind"] != CORE.kind and not _checked(provider)]
    return []


def may_name(provider: Object, config_map: Key) -> bool:
    """Whether the provider names this ConfigMap, or selects some of its namespace."""
    if provider_api.additional_manifests(provider) == config_map:
        return True
    selects = dig(provider, "spec.fetchConfig.selector") is not None
    return selects and key_of(provider).namespace == config_map.namespace


def _names(provider: Object, config_map: Mapping[str, Any]) -> bool:
    key, selector = key_of(config_map), dig(provider, "spec.fetchConfig.selector", {})
    named = provider_api.additional_manifests(provider) == key
    return may_name(provider, key) and (named or selects(selector, dig(config_map, "metadata.labels", {})))


def _checked(provider: Object) -> bool:
    return is_true(dig(provider, "status.conditions"), PREFLIGHT_CHECK_PASSED)
