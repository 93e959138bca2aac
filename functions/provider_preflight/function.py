"""`provider_preflight`, put together."""

from __future__ import annotations

from functools import partial

from shared.clients import Clients
from shared.event import Event
from shared.providers.status import CHECKED
from shared.providers.telling import refusal, secrets
from shared.runtime import Answer, Function

from .decide import decide
from .observe import Observed, observe
from .triggers import TRIGGERS


def function(*, resync: bool) -> Function[Observed]:
    """Returns the function; with `resync` it also acts on a provider that is reconciled by its status."""
    look, judge = partial(observe, resync=resync), partial(decide, resync=resync)
    return Function(TRIGGERS, look, judge, on_rejected=refusal(CHECKED, "RequestRefused"), sensitive_values=secrets)


def handle(clients: Clients, event: Event) -> Answer:
    return function(resync=event.resync).handle(clients, event)
