"""Which providers a change concerns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.api import provider as contract
from shared.api.conditions import is_true
from shared.api.provider import CORE
from shared.api.resources import CONFIG_MAP, SECRET
from shared.kube import Object, deleting, dig, key_of
from shared.providers.peers import works
from shared.providers.selectors import matches
from shared.providers.state import CHECKED


def concerned(changed: Mapping[str, Any], providers: Iterable[Object]) -> list[Object]:
    """Those whose Secret or ConfigMap this is; or that wait for this core provider, now that it works."""
    alive = [provider for provider in providers if not deleting(provider)]
    match changed["kind"]:
        case SECRET.kind:
            return [provider for provider in alive if contract.config_secret(provider) == key_of(changed)]
        case CONFIG_MAP.kind:
            return [provider for provider in alive if _names(provider, changed)]
        case CORE.kind if works(changed):
            return [provider for provider in alive if provider["kind"] != CORE.kind and not _checked(provider)]
    return []


def _names(provider: Object, config_map: Mapping[str, Any]) -> bool:
    if contract.additional_manifests(provider) == key_of(config_map):
        return True
    selector = dig(provider, "spec.fetchConfig.selector")
    same = key_of(provider).namespace == key_of(config_map).namespace
    return selector is not None and same and matches(selector, dig(config_map, "metadata.labels", {}))


def _checked(provider: Object) -> bool:
    return is_true(dig(provider, "status.conditions"), CHECKED)
