"""`provider_preflight`, put together."""

from __future__ import annotations

from functools import partial

from shared.clients import Clients
from shared.event import Event
from shared.providers.status import CHECKED
from shared.providers.telling import refusal, secrets
from shared.runtime import Answer, Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS


def handle(clients: Clients, event: Event) -> Answer:
    look, judge = partial(observe, resync=event.resync), partial(decide, resync=event.resync)
    told = refusal(CHECKED, "RequestRefused")
    return Function(TRIGGERS, look, judge, refused=told, withheld=secrets).handle(clients, event)
