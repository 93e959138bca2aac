"""Reads the inputs of a decision, unless the HelmChartProxy is paused or belongs to the original controller."""

from __future__ import annotations

from shared.clients import Clients
from shared.helm_proxies import inputs
from shared.helm_proxies.inputs import Observed
from shared.running_core import HELM_ADDON_NAMES, find_running
from shared.runtime import Request

from .reconciled import is_paused

_CONTROLLER_SECONDS = 30.0
"""Seconds for which it is remembered whether the original controller runs."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the inputs of a decision."""
    proxy = request.primary
    if proxy is None or is_paused(proxy):
        return Observed(proxy)
    controller = clients.remembered.get(
        "helm addon controller", _CONTROLLER_SECONDS, lambda: find_running(clients.management, *HELM_ADDON_NAMES)
    )
    return Observed(proxy, controller) if controller else inputs.read(clients, proxy)
