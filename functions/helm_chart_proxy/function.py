"""The function `helm_chart_proxy`: makes a HelmReleaseProxy for each Cluster that a HelmChartProxy selects."""

from __future__ import annotations

from shared.api.cluster import is_paused
from shared.clients import Clients
from shared.helm_proxies import inputs
from shared.helm_proxies.inputs import Observed
from shared.running_core import running_helm_addon
from shared.runtime import Function, Request
from shared.runtime.keyed_lock import KeyedLock

from .decide import decide
from .triggers import TRIGGERS


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the inputs of a decision."""
    proxy = request.primary
    if proxy is None or is_paused(proxy):
        return Observed(proxy)
    controller = running_helm_addon(clients.management, clients.remembered)
    return Observed(proxy, controller) if controller else inputs.read(clients, proxy)


# A credential may be in any namespace, so the spec in an event is not trusted.
FUNCTION = Function(TRIGGERS, observe, decide, trusts_events=False, lock=KeyedLock("this HelmChartProxy"))

handle = FUNCTION.handle
