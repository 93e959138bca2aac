"""Reads the inputs of the preflight checks; for a reconciled provider only the objects that it references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.api import cluster as cluster_api
from shared.api import provider as provider_api
from shared.clients import Clients
from shared.components import catalog
from shared.kube import Object, deleting
from shared.providers import inputs, peers
from shared.providers.inputs import Inputs
from shared.runtime import Request


@dataclass(frozen=True)
class Observed:
    """The inputs of the preflight checks of one provider."""

    provider: Object | None
    inputs: Inputs = field(default_factory=Inputs)
    reconciled: bool = False
    """Whether the present spec and inputs are installed and no resync was requested."""
    in_catalog: bool = True
    """Whether the catalog or the configuration has a source for this name."""
    peers: Sequence[Object] = ()
    """The other providers of the same kind."""
    cores: Sequence[Object] = ()
    """All CoreProviders; empty for a CoreProvider, whose `peers` they are."""
    resync: bool = False
    """Whether the phases that follow also look at a provider that is already installed."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the inputs; at a resync also those of a provider that is already installed."""
    provider, resync = request.primary, request.event.resync
    if provider is None or deleting(provider) or cluster_api.is_paused(provider):
        return Observed(provider)
    kind = provider_api.kind_of(provider)
    read = inputs.read(clients, provider)
    if not resync and inputs.is_reconciled(provider, inputs.inputs_hash(provider, read, catalog.configuration_text())):
        return Observed(provider, read, reconciled=True)
    in_catalog = catalog.knows(kind, provider["metadata"]["name"])
    others = [
        other
        for other in peers.list_providers(clients, kind)
        if other["metadata"]["uid"] != provider["metadata"]["uid"]
    ]
    cores = () if kind.is_core else peers.list_providers(clients, provider_api.CORE)
    return Observed(provider, read, in_catalog=in_catalog, peers=others, cores=cores, resync=resync)
