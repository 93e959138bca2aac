"""The components of the version in a provider's spec, as `provider_fetch` has stored them."""

from __future__ import annotations

from dataclasses import dataclass

from shared.clients import Clients
from shared.components.bundles import Bundle
from shared.kube import Object, dig

from .inputs import Inputs, source_hash


@dataclass(frozen=True)
class FetchedComponents:
    """The stored components of one version."""

    bundle: Bundle
    contract: str
    """The Cluster API contract of this version, such as `v1beta2` (metadata.yaml, `releaseSeries`)."""


def load_components(clients: Clients, provider: Object, inputs: Inputs) -> FetchedComponents | None:
    """Loads the components that `status.target` names.

    Returns None if version or source in the spec have changed since the fetch, or if storage has lost the components.

    Raises:
        StorageError: Storage cannot be read.
    """
    target = dig(provider, "status.target", {})
    if not target.get("digest") or target.get("sourceHash") != source_hash(provider, inputs):
        return None
    bundle = clients.components.load(target["digest"])
    return FetchedComponents(bundle, target.get("contract", "")) if bundle else None
