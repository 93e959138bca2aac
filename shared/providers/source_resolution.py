"""Resolves the source of a provider's components, and the version to fetch from it."""

from __future__ import annotations

from dataclasses import dataclass

from shared import semver
from shared.api import provider as provider_api
from shared.api.resources import CONFIG_MAP
from shared.clients import Clients
from shared.components.bundles import Bundle
from shared.components.repositories import CONFIG_MAPS, Repository, config_maps, is_allowed, open_repository
from shared.kube import Object, dig, key_of, selectors
from shared.kube.selectors import as_text

from .inputs import Inputs, load_components

SOURCE_ANNOTATION = "capi-functions.dev/source"
"""The annotation of a ConfigMap with a downloaded version: the place it was downloaded from."""


@dataclass(frozen=True)
class ResolvedSource:
    """The source of one version of a provider."""

    repository: Repository
    version: str
    """`spec.version`, or the source's default."""
    bundle: Bundle | None = None
    """The components of this version; None if they are not in storage."""


def repository_of(provider: Object, inputs: Inputs, *, local: bool = False) -> Repository:
    """Returns the repository that the provider names, else the catalog's.

    Args:
        provider: The provider object.
        inputs: Its inputs: the ConfigMaps of its selector, and variables with credentials.
        local: Whether a `file:` URL may name a folder.

    Raises:
        ComponentsError: Neither the provider nor the catalog has a source.
    """
    selector = as_text(dig(provider, "spec.fetchConfig.selector", {}))
    return open_repository(provider, inputs.variables, inputs.config_maps, selector, hosts=inputs.hosts, local=local)


def resolve(clients: Clients, provider: Object, inputs: Inputs) -> ResolvedSource:
    """Resolves source and version: components in storage first, then a ConfigMap in the provider's namespace.

    The provider's status, not the bucket, records the digest of the components of a version, because otherwise anyone
    who writes to the bucket could choose the installed components.

    A source that the provider names itself (`spec.fetchConfig`) comes first: the ConfigMap replaces it if it does not
    answer.

    Raises:
        ComponentsError: There is no source, or the source has no default version.
        SourceError: The source does not answer.
        StorageError: Storage cannot be read.
        ApiError: ConfigMaps cannot be listed.
    """
    repository = repository_of(provider, inputs)
    version = provider_api.spec_version(provider) or repository.default_version()
    fetched = load_components(clients, provider, inputs)
    # If the components of this version came from elsewhere, the provider's own source did not answer then, and is not
    # requested again.
    if fetched and (names_source(provider) or fetched.bundle.source == repository.place):
        return ResolvedSource(repository, version, fetched.bundle)
    copy = None if names_source(provider) else downloaded_copy(clients, provider, version, repository.place)
    return ResolvedSource(copy or repository, version)


def names_source(provider: Object) -> bool:
    """Returns whether `spec.fetchConfig` of the provider has a URL or an OCI artifact."""
    return any(dig(provider, ("spec", "fetchConfig", name)) for name in ("url", "oci"))


def downloaded_copy(clients: Clients, provider: Object, version: str, place: str) -> Repository | None:
    """Returns the only ConfigMap with the labels of a download of this version, unless it has another source."""
    if dig(provider, "spec.fetchConfig.selector") is not None or semver.try_parse(version) is None:
        return None
    if not is_allowed(CONFIG_MAPS):
        return None
    labels = provider_api.download_labels(provider, version)
    if not all(map(selectors.is_label_value, labels.values())):
        return None  # no object can have these labels, such as a version with build metadata
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    listed = clients.management.list(CONFIG_MAP, key_of(provider).namespace, selector=selector)
    found = [each for each in listed if dig(each, ("metadata", "annotations", SOURCE_ANNOTATION)) in (None, place)]
    return config_maps.ConfigMapRepository(found, selector) if len(found) == 1 else None
