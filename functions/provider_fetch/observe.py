"""Reads the inputs of a decision about one provider: its version, source and components, and other providers.

Components are downloaded to storage, unless storage has the content in the provider's status.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from shared.api import provider as provider_api
from shared.api.provider import KINDS
from shared.applier.policy import PolicyError
from shared.clients import Clients
from shared.components import metadata
from shared.components.bundles import Bundle
from shared.components.errors import ComponentsError
from shared.components.repositories import Repository
from shared.download import SourceError
from shared.kube import Object
from shared.providers import inputs, peers
from shared.providers.annotations import keeps_download
from shared.providers.inputs import Inputs
from shared.providers.source_resolution import ResolvedSource, downloaded_copy, names_source, resolve
from shared.providers.status import why_not_due
from shared.runtime import Request
from shared.runtime.keyed_lock import KeyedLock
from shared.storage import StorageError, StorageUnavailable

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


class InvalidAnnotation(ComponentsError):
    """An annotation of the provider has an unknown value."""

    reason = "InvalidAnnotation"


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one provider."""

    provider: Object | None
    inputs: Inputs = field(default_factory=Inputs)
    resolved: ResolvedSource | ComponentsError | SourceError | None = None
    """Source and version, with the components if the spec names the version; or why they could not be read. None: not
    read."""
    others: Sequence[Object] = ()
    """The providers an upgrade must be compatible with: all others for the core provider, else the core provider."""
    resync: bool = False
    """Whether `provider_install` also compares the objects in the cluster."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the inputs in the order of their dependence, up to the first obstacle."""
    provider = request.primary
    if why_not_due(provider) or provider is None:
        return Observed(provider)
    observed = Observed(provider, inputs.read(clients, provider), resync=request.event.resync)
    if observed.inputs.problem:
        return observed
    try:
        keeps_download(provider)
        resolved = resolve(clients, provider, observed.inputs)
        if provider_api.spec_version(provider):  # a version that is not checked yet is not downloaded
            resolved = with_components(clients, provider, resolved)
    except PolicyError as error:
        return replace(observed, resolved=InvalidAnnotation(str(error)))
    except (ComponentsError, SourceError) as error:
        return replace(observed, resolved=error)
    except StorageUnavailable:
        raise  # the runtime repeats the event soon
    except StorageError as error:
        return replace(observed, resolved=SourceError(str(error), transient=True))
    observed = replace(observed, resolved=resolved)
    if resolved.bundle is None or provider_api.installed_version(provider) in ("", resolved.version):
        return observed
    kinds = KINDS if provider_api.kind_of(provider).is_core else (provider_api.CORE,)
    uid = provider["metadata"]["uid"]
    others = [other for other in peers.list_providers(clients, *kinds) if other["metadata"]["uid"] != uid]
    return replace(observed, others=others)
