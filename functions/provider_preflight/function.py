"""The function `provider_preflight`: checks whether a provider may be installed."""

from __future__ import annotations

from functools import partial

from shared.clients import Clients
from shared.event import Event
from shared.providers.error_reporting import report_rejection, sensitive_values
from shared.providers.status import PREFLIGHT_CHECK_PASSED
from shared.runtime import Answer, Function

from .decide import decide
from .observe import Observed, observe
from .triggers import TRIGGERS


def function(*, resync: bool) -> Function[Observed]:
    """Returns the function; with `resync` it also checks a provider that is already installed."""
    look, judge = partial(observe, resync=resync), partial(decide, resync=resync)
    return Function(
        TRIGGERS,
        look,
        judge,
        on_rejected=report_rejection(PREFLIGHT_CHECK_PASSED, "RequestRefused"),
        sensitive_values=sensitive_values,
    )


def handle(clients: Clients, event: Event) -> Answer:
    """Handles an event about a provider; a resync event also checks a provider that is already installed."""
    return function(resync=event.resync).handle(clients, event)
