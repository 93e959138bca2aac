"""Reads the inputs of the preflight checks; for an installed provider only the objects that it references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from shared.api import provider as provider_api
from shared.clients import Clients
from shared.components import catalog
from shared.kube import Object, deleting
from shared.providers import inputs, peers
from shared.providers.inputs import Inputs
from shared.providers.reconciled import is_installed
from shared.providers.status import why_not_due
from shared.runtime import Request


@dataclass(frozen=True)
class Observed:
    """The inputs of the preflight checks of one provider."""

    provider: Object | None
    inputs: Inputs = field(default_factory=Inputs)
    installed: bool = False
    """Whether the present spec and inputs are installed and no resync was requested."""
    outdated: bool = False
    """Whether a paused provider appears installed although its referenced objects have changed."""
    in_catalog: bool = True
    """Whether the catalog or the configuration has a source for this name."""
    peers: Sequence[Object] = ()
    """The other providers of the same kind; not read while the provider waits for a core provider."""
    cores: Sequence[Object] = ()
    """All CoreProviders; empty for a CoreProvider, whose `peers` they are."""
    resync: bool = False
    """Whether the phases that follow also look at a provider that is already installed."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the inputs; at a resync also for a provider that is already installed."""
    provider, resync = request.primary, request.event.resync
    if why_not_due(provider, checked=False) or provider is None:
        return Observed(provider, outdated=_is_outdated(clients, request))
    kind = provider_api.kind_of(provider)
    read, now = inputs.read(clients, provider), datetime.now(UTC)
    if not resync and _are_installed(provider, read, now):
        return Observed(provider, read, installed=True)
    in_catalog = catalog.knows(kind, provider["metadata"]["name"])
    cores = () if kind.is_core else peers.list_providers(clients, provider_api.CORE)
    waits = not kind.is_core and not any(map(peers.is_operational, cores))
    listed = () if waits else peers.list_providers(clients, kind)
    others = [other for other in listed if other["metadata"]["uid"] != provider["metadata"]["uid"]]
    return Observed(provider, read, in_catalog=in_catalog, peers=others, cores=cores, resync=resync)


def _is_outdated(clients: Clients, request: Request) -> bool:
    """Returns whether an event without an object is about a change of an object that a paused provider references."""
    provider, now = request.primary, datetime.now(UTC)
    if provider is None or deleting(provider) or request.event.object is not None or not is_installed(provider, now):
        return False
    return not _are_installed(provider, inputs.read(clients, provider), now)


def _are_installed(provider: Object, read: Inputs, now: datetime) -> bool:
    return inputs.are_installed(provider, inputs.inputs_hash(provider, read, catalog.configuration_text()), now)
