"""`provider_fetch`, put together."""

from __future__ import annotations

from functools import partial

from shared.clients import Clients
from shared.event import Event
from shared.providers.status import INSTALLED
from shared.providers.telling import refusal, secrets
from shared.runtime import Answer, Function

from .decide import decide, report
from .observe import Observed, observe
from .triggers import TRIGGERS


def function(*, resync: bool) -> Function[Observed]:
    """Returns the function; with `resync` it also acts on a provider that is reconciled by its status."""
    judge, refused = partial(decide, resync=resync), refusal(INSTALLED, "ComponentsFetchError")
    return Function(TRIGGERS, observe, judge, report=report, on_rejected=refused, sensitive_values=secrets)


def handle(clients: Clients, event: Event) -> Answer:
    return function(resync=event.resync).handle(clients, event)
