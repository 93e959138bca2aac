"""The other providers of the management cluster, above all the core provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.conditions import is_true
from shared.api.provider import ProviderKind
from shared.clients import Clients
from shared.kube import Object, dig
from shared.kube.crds import list_defined

from .status import COMPONENTS_AVAILABLE, awaits_workloads


def list_providers(clients: Clients, *kinds: ProviderKind) -> list[Object]:
    """Lists the providers of these kinds in all namespaces; a kind without a CRD has none.

    Raises:
        ApiError: Providers cannot be listed.
    """
    return [provider for kind in kinds for provider in list_defined(clients.management, kind.resource)]


def is_operational(core: Mapping[str, Any]) -> bool:
    """Returns whether the core provider runs, so that other providers need not wait for it.

    A core provider also runs during an upgrade and after a failed one, so `Ready` alone does not decide.
    """
    conditions = dig(core, "status.conditions")
    return is_true(conditions, "Ready") or is_true(conditions, COMPONENTS_AVAILABLE) or awaits_workloads(core)
