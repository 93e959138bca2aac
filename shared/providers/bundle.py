"""The components that a provider is to be made from, as `provider_fetch` has left them."""

from __future__ import annotations

from dataclasses import dataclass

from shared.clients import Clients
from shared.components.bundles import Bundle
from shared.kube import Object, dig

from .inputs import Inputs, asked_hash


@dataclass(frozen=True)
class Fetched:
    bundle: Bundle
    contract: str
    """The Cluster API contract that this version keeps."""


def fetched(clients: Clients, provider: Object, inputs: Inputs) -> Fetched | None:
    """None where what is asked for now was not fetched yet, or is in storage no more. Raises `StorageError`."""
    target = dig(provider, "status.target", {})
    if not target.get("digest") or target.get("asked") != asked_hash(provider, inputs):
        return None
    bundle = clients.components.load(target["digest"])
    return Fetched(bundle, target.get("contract", "")) if bundle else None
