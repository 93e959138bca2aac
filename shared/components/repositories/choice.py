"""Which place a provider's `spec.fetchConfig` means, opened with what its config Secret holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.api import provider as provider_api
from shared.download.access import Access
from shared.kube.resources import Object, dig, key_of
from shared.network import origin
from shared.settings import SETTINGS

from .. import catalog
from .addresses import split
from .config_maps import ConfigMapRepository
from .folder import FolderRepository
from .gitlab import GitLabRepository, is_gitlab
from .oci import OciRepository
from .port import Repository
from .releases import ReleaseRepository

_GITHUB = origin(catalog.GITHUB)


def repository(
    provider: Object,
    variables: Mapping[str, str],
    config_maps: Sequence[Mapping[str, Any]],
    selector: str,
    *,
    local: bool = False,
) -> Repository:
    """`config_maps` are what `selector` finds. Raises `ComponentsError`; asks nobody anything yet.

    With `local` the URL may name a folder: for who runs on a machine of their own.
    """
    name, kind = key_of(provider).name, provider_api.kind_of(provider)
    config = dig(provider, "spec.fetchConfig", {})
    if config.get("selector") is not None:
        return ConfigMapRepository(config_maps, selector)
    if url := config.get("oci"):
        return OciRepository(url, kind.type_name, name, _registry_access(variables))
    url = config.get("url") or catalog.lookup(kind, name)
    if local and url.startswith("file:"):
        return FolderRepository(url)
    return _of_url(url, variables, chosen=bool(config.get("url")))


def _of_url(url: str, variables: Mapping[str, str], *, chosen: bool) -> Repository:
    """`chosen`: the URL is the provider's own, and no plain HTTP that somebody else decided on."""
    parts, authority = split(url, "https", "http"), variables.get("ca.crt", "")
    if parts.scheme == "http" and not chosen:
        variables = {}
    if is_gitlab(parts):
        return GitLabRepository(url, variables.get("gitlab-access-token", ""), authority)
    token = variables.get("github-token", "")
    if not token and origin(url) == _GITHUB:
        token = SETTINGS.get("GITHUB_TOKEN", "")  # everybody's, which is not for other hosts
    return ReleaseRepository(url, token, authority)


def _registry_access(variables: Mapping[str, str]) -> Access:
    """By the names that Cluster API Operator knows."""
    return Access(
        username=variables.get("OCI_USERNAME", ""),
        password=variables.get("OCI_PASSWORD", "") or variables.get("OCI_REFRESH_TOKEN", ""),
        token=variables.get("OCI_ACCESS_TOKEN", ""),
        authority=variables.get("ca.crt", ""),
    )
