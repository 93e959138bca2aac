"""The function `provider_fetch`: downloads the components of a provider's version to object storage."""

from __future__ import annotations

from functools import partial

from shared.clients import Clients
from shared.event import Event
from shared.providers.error_reporting import report_rejection, sensitive_values
from shared.providers.status import PROVIDER_INSTALLED
from shared.runtime import Answer, Function

from .decide import decide, report
from .observe import Observed, observe
from .triggers import TRIGGERS


def function(*, resync: bool) -> Function[Observed]:
    """Returns the function; with `resync` the next phase also compares the objects in the cluster."""
    judge, refused = partial(decide, resync=resync), report_rejection(PROVIDER_INSTALLED, "ComponentsFetchError")
    return Function(TRIGGERS, observe, judge, report=report, on_rejected=refused, sensitive_values=sensitive_values)


def handle(clients: Clients, event: Event) -> Answer:
    """Handles an event about a provider; a resync event is passed on to `provider_install`."""
    return function(resync=event.resync).handle(clients, event)
