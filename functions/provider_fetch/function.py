"""`provider_fetch`, put together."""

from __future__ import annotations

from functools import partial

from shared.clients import Clients
from shared.event import Event
from shared.providers.status import INSTALLED
from shared.providers.telling import refusal, secrets
from shared.runtime import Answer, Function

from .decide import decide, report
from .observe import observe
from .triggers import TRIGGERS


def handle(clients: Clients, event: Event) -> Answer:
    judge = partial(decide, resync=event.resync)
    told = refusal(INSTALLED, "ComponentsFetchError")
    return Function(TRIGGERS, observe, judge, report=report, refused=told, withheld=secrets).handle(clients, event)
