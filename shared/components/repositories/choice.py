"""Opens the repository that a provider's `spec.fetchConfig`, or the catalog, names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.api import provider as provider_api
from shared.kube.resources import Object, dig, key_of
from shared.registration import registered

from .. import catalog
from .addresses import scheme_of
from .port import Repository, RepositoryConfig, RepositoryType


def open_repository(
    provider: Object,
    variables: Mapping[str, str],
    config_maps: Sequence[Mapping[str, Any]],
    selector: str,
    *,
    local: bool = False,
) -> Repository:
    """Returns the repository of a provider, without a request to it.

    Args:
        provider: One of the seven provider kinds.
        variables: The keys of the Secret of `spec.configSecret`, decoded.
        config_maps: What `spec.fetchConfig.selector` selects.
        selector: The text form of that selector.
        local: The URL may name a folder: for users on their own machine.

    Raises:
        ComponentsError: `spec.fetchConfig` is unusable, or it is empty and the catalog has no such provider.
    """
    config = _config(provider, variables, config_maps, selector, local)
    types: tuple[RepositoryType, ...] = registered(__package__, "REPOSITORY_TYPE")
    serving = (each for each in sorted(types, key=lambda each: each.fallback) if each.serves(config))
    return next(serving).open(config)


def _config(
    provider: Object,
    variables: Mapping[str, str],
    config_maps: Sequence[Mapping[str, Any]],
    selector: str,
    local: bool,
) -> RepositoryConfig:
    name, kind = key_of(provider).name, provider_api.kind_of(provider)
    config = dig(provider, "spec.fetchConfig", {})
    if config.get("selector") is not None:
        return RepositoryConfig(kind.type_name, name, selector=selector, config_maps=config_maps)
    if oci := config.get("oci"):
        return RepositoryConfig(kind.type_name, name, oci=oci, variables=variables)
    url = config.get("url") or catalog.lookup(kind, name)
    if scheme_of(url) == "http" and not config.get("url"):
        variables = {}  # only the provider itself may choose to send credentials without TLS
    return RepositoryConfig(kind.type_name, name, url=url, variables=variables, local=local)
