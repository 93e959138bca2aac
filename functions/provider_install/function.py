"""The function `provider_install`: applies the objects of a provider."""

from __future__ import annotations

from functools import partial

from shared.clients import Clients
from shared.event import Event
from shared.providers.error_reporting import report_rejection, sensitive_values
from shared.providers.status import PROVIDER_INSTALLED
from shared.runtime import Answer, Function

from .conflict import on_conflict
from .decide import decide
from .observe import Observed, observe
from .report import report
from .triggers import TRIGGERS


def function(*, resync: bool) -> Function[Observed]:
    """Returns the function; with `resync` it also compares the objects of a provider that is already installed."""
    look, judge = partial(observe, resync=resync), partial(decide, resync=resync)
    report_rollout, refused = partial(report, resync=resync), report_rejection(PROVIDER_INSTALLED, "InstallFailed")
    return Function(
        TRIGGERS,
        look,
        judge,
        report=report_rollout,
        on_conflict=on_conflict,
        on_rejected=refused,
        sensitive_values=sensitive_values,
    )


def handle(clients: Clients, event: Event) -> Answer:
    """Handles an event about a provider; a resync event also compares the objects in the cluster."""
    return function(resync=event.resync).handle(clients, event)
