"""What is read for the checks of one provider: of one that is installed as it stands, itself and its Secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.api import cluster as cluster_api
from shared.api import provider as provider_api
from shared.clients import Clients
from shared.components import catalog
from shared.kube import Key, Object, deleting
from shared.providers import inputs, peers
from shared.providers.inputs import Inputs


@dataclass(frozen=True)
class Observed:
    provider: Object | None
    inputs: Inputs = field(default_factory=Inputs)
    unchanged: bool = False
    """What it asks for is installed, and nobody wants another look."""
    known: bool = True
    """In the catalog, or in the providers of the mounted configuration."""
    peers: Sequence[Object] = ()
    """All other providers of its kind."""
    cores: Sequence[Object] = ()
    """All CoreProviders; not read for one of them, whose peers they are."""


def observe(clients: Clients, _key: Key, provider: Object | None, *, resync: bool = False) -> Observed:
    if provider is None or deleting(provider) or cluster_api.is_paused(provider):
        return Observed(provider)
    kind = provider_api.kind_of(provider)
    read = inputs.read(clients, provider)
    if not resync and inputs.is_reconciled(provider, inputs.inputs_hash(provider, read, catalog.overrides_text())):
        return Observed(provider, read, unchanged=True)
    known = catalog.knows(kind, provider["metadata"]["name"])
    others = [
        other
        for other in peers.list_providers(clients, kind)
        if other["metadata"]["uid"] != provider["metadata"]["uid"]
    ]
    cores = () if kind.is_core else peers.list_providers(clients, provider_api.CORE)
    return Observed(provider, read, known=known, peers=others, cores=cores)
