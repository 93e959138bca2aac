"""Downloads the components of a version to storage, unless storage has the content in the provider's status."""

from __future__ import annotations

from dataclasses import replace

from shared.clients import Clients
from shared.components import metadata
from shared.components.bundles import Bundle
from shared.components.repositories import Repository
from shared.download import SourceError
from shared.kube import Object
from shared.providers.source_resolution import ResolvedSource, downloaded_copy, names_source
from shared.runtime.keyed_lock import KeyedLock

_LOCK = KeyedLock("the download of components", limit=3)
"""Limits concurrent downloads, so that a slow source does not occupy all threads of a process."""


def with_components(clients: Clients, provider: Object, resolved: ResolvedSource) -> ResolvedSource:
    """Returns the source with its components, which are downloaded unless they are in storage.

    If a source in the provider's spec does not answer, a ConfigMap in the provider's namespace replaces it.

    Raises:
        SourceError: The source does not answer.
        ComponentsError: The source does not have the version, or its files are invalid.
        StorageError: Storage cannot be read or written.
        Unavailable: Downloads for other events take long.
    """
    if resolved.bundle is not None:
        return resolved
    version = resolved.version
    try:
        return replace(resolved, bundle=_download(clients, resolved.repository, version))
    except SourceError:
        place = resolved.repository.place
        copy = downloaded_copy(clients, provider, version, place) if names_source(provider) else None
        if copy is None:
            raise
        return ResolvedSource(copy, version, _download(clients, copy, version))


def _download(clients: Clients, repository: Repository, version: str) -> Bundle:
    with _LOCK.hold((repository.place, version)):
        files = repository.fetch(version)
        metadata.parse(files.metadata.encode(), repository.place)
        return clients.components.save(Bundle(version, files.metadata, files.components, repository.place))
