"""By what a provider's objects are known as its own, and whether another provider needs one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api import provider as provider_api
from shared.api.provider import KINDS, PROVIDER_LABEL
from shared.applier import inventory
from shared.applier.inventory import KEPT
from shared.applier.owner import Owner
from shared.kube import Client, dig, key_of
from shared.kube.crds import list_defined
from shared.manifests import Identity


def owner(provider: Mapping[str, Any]) -> Owner:
    return Owner(provider["kind"], PROVIDER_LABEL, provider_api.label_of(provider), needed_by)


def needed_by(client: Client, label: str, who: Identity) -> str:
    """The provider with this label, if it is there and the object is among what it wants. Raises `ApiError`."""
    for kind in KINDS:
        if not kind.is_core and not label.startswith(f"{kind.prefix}-"):
            continue
        for provider in list_defined(client, kind.resource):
            if provider_api.label_of(provider) == label and _needs(provider, who):
                return f"{kind.kind} {key_of(provider)}"
    return ""


def _needs(provider: Mapping[str, Any], who: Identity) -> bool:
    """What another installer has brought is on no record yet, and everything with the label counts."""
    entries = inventory.load(dig(provider, "status.resources"))
    return not entries or any(entry.identity == who and entry.status != KEPT for entry in entries)
