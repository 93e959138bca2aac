"""The other providers of the management cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.conditions import is_true
from shared.api.provider import ProviderKind
from shared.clients import Clients
from shared.kube import Object, dig
from shared.kube.crds import list_defined

from .status import AVAILABLE


def all_of(clients: Clients, *kinds: ProviderKind) -> list[Object]:
    """All providers of these kinds, in all namespaces; none of a kind that is not defined. Raises `ApiError`."""
    return [provider for kind in kinds for provider in list_defined(clients.management, kind.resource)]


def works(core: Mapping[str, Any]) -> bool:
    """What others wait for. A core provider that works keeps doing so while a change of it is refused."""
    conditions = dig(core, "status.conditions")
    return is_true(conditions, "Ready") or is_true(conditions, AVAILABLE)
