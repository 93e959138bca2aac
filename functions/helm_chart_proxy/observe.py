"""Reads the inputs of a decision, unless the HelmChartProxy is paused or belongs to the original controller."""

from __future__ import annotations

from shared.api.cluster import is_paused
from shared.clients import Clients
from shared.helm_proxies import inputs
from shared.helm_proxies.inputs import Observed
from shared.running_core import running_helm_addon
from shared.runtime import Request


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the inputs of a decision."""
    proxy = request.primary
    if proxy is None or is_paused(proxy):
        return Observed(proxy)
    controller = running_helm_addon(clients.management, clients.remembered)
    return Observed(proxy, controller) if controller else inputs.read(clients, proxy)
