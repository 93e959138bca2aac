"""Reads the inputs of a decision about one provider: its version, source and components, and other providers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from shared.api import provider as provider_api
from shared.api.provider import KINDS
from shared.applier.policy import PolicyError
from shared.clients import Clients
from shared.components.errors import ComponentsError
from shared.download import SourceError
from shared.kube import Object
from shared.providers import inputs, peers
from shared.providers.annotations import keeps_download
from shared.providers.guards import why_not_due
from shared.providers.inputs import Inputs
from shared.providers.source_resolution import ResolvedSource, resolve
from shared.runtime import Request
from shared.storage import StorageError, StorageUnavailable

from .download import with_components


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
