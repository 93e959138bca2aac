"""The function `provider_report`: reports whether the components of an installed provider work."""

from __future__ import annotations

from functools import partial

from shared.api.resources import DAEMON_SET, DEPLOYMENT
from shared.clients import Clients
from shared.event import Event
from shared.providers.error_reporting import report_rejection
from shared.providers.status import COMPONENTS_AVAILABLE
from shared.runtime import Answer, Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS


def handle(clients: Clients, event: Event) -> Answer:
    """Handles an event about a provider, or about one of its workloads."""
    workload = event.object if event.kind in (DEPLOYMENT.kind, DAEMON_SET.kind) else None
    refused = report_rejection(COMPONENTS_AVAILABLE, "RequestRefused")
    return Function(TRIGGERS, partial(observe, changed=workload), decide, on_rejected=refused).handle(clients, event)
