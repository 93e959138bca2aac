"""Opens the repository that a provider's `spec.fetchConfig`, or the catalog, names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from shared.api import provider as provider_api
from shared.download import access
from shared.download.access import without_default_port
from shared.kube.resources import Object, dig, key_of
from shared.redaction import redact_url
from shared.registration import registered
from shared.settings import PROVIDER_SOURCES, SETTINGS

from .. import catalog
from ..errors import ComponentsError
from .addresses import scheme_of, server_of
from .oci import canonical_url
from .port import Repository, RepositoryConfig, RepositoryType

CONFIG_MAPS = "configmaps:"
"""The entry for ConfigMaps in the list of allowed sources."""


def open_repository(
    provider: Object,
    variables: Mapping[str, str],
    config_maps: Sequence[Mapping[str, Any]],
    selector: str,
    *,
    hosts: Collection[str] | None = None,
    local: bool = False,
) -> Repository:
    """Returns the repository of a provider, without a request to it.

    Args:
        provider: One of the seven provider kinds.
        variables: The keys of the Secret of `spec.configSecret`, decoded.
        config_maps: The ConfigMaps that `spec.fetchConfig.selector` selects.
        selector: The text form of that selector.
        hosts: The hosts that this Secret names for its credentials, None if it names none.
        local: The URL may name a folder: for users on their own machine.

    Raises:
        ComponentsError: `spec.fetchConfig` is unusable, or it is empty and the catalog has no such provider.
    """
    config = _config(provider, variables, config_maps, selector, hosts, local)
    types: tuple[RepositoryType, ...] = registered(__package__, "REPOSITORY_TYPE")
    serving = (each for each in sorted(types, key=lambda each: each.fallback) if each.serves(config))
    return next(serving).open(config)


def is_allowed(source: str) -> bool:
    """Returns whether the installation allows the source, a URL or `CONFIG_MAPS`, in providers."""
    return access.is_allowed(source, SETTINGS.get("PROVIDER_ALLOWED_SOURCES", ""))


def _require_allowed(source: str) -> None:
    if not is_allowed(source):
        raise ComponentsError(
            f"source {redact_url(source)[:200]} is refused because PROVIDER_ALLOWED_SOURCES does not list it "
            f"({PROVIDER_SOURCES.where})"
        )


def _config(
    provider: Object,
    variables: Mapping[str, str],
    config_maps: Sequence[Mapping[str, Any]],
    selector: str,
    hosts: Collection[str] | None,
    local: bool,
) -> RepositoryConfig:
    name, kind = key_of(provider).name, provider_api.kind_of(provider)
    config = dig(provider, "spec.fetchConfig", {})
    if config.get("selector") is not None:
        _require_allowed(CONFIG_MAPS)
        return RepositoryConfig(kind.type_name, name, selector=selector, config_maps=config_maps)
    if oci := config.get("oci"):
        _require_allowed(canonical_url(oci))
        return RepositoryConfig(kind.type_name, name, oci=oci, variables=variables, hosts=hosts)
    if url := config.get("url"):
        _require_allowed(url)
        return RepositoryConfig(kind.type_name, name, url=url, variables=variables, hosts=hosts, local=local)
    url = catalog.lookup(kind, name)
    if scheme_of(url) == "http":
        variables = {}  # credentials need TLS, and the provider's author did not choose this URL
    hosts = {without_default_port(server_of(url))} if hosts is None else hosts
    return RepositoryConfig(kind.type_name, name, url=url, variables=variables, hosts=hosts, local=local)
