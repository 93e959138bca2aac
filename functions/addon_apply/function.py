"""`addon_apply`, put together."""

from __future__ import annotations

from functools import partial

from shared.api.resources import SECRET
from shared.clients import Clients
from shared.event import Event
from shared.kube import Unavailable
from shared.runtime import Answer, Function
from shared.runtime.flights import Flights

from .decide import decide
from .observe import observe
from .overtaken import overtaken
from .report import report
from .standing import settled
from .triggers import TRIGGERS

_FLIGHTS = Flights("this addon")
"""The second of two deliveries about one addon then finds the work done; across processes, each does it at worst."""


def handle(clients: Clients, event: Event) -> Answer:
    # Another kubeconfig may lead nowhere, or to another cluster.
    look = partial(observe, resync=event.resync, doubt=event.kind == SECRET.kind)
    try:
        with _FLIGHTS.alone((id(clients), TRIGGERS.key(event))):
            return Function(TRIGGERS, look, decide, settled, report, overtaken).handle(clients, event)
    except Unavailable as error:
        return Answer(503, str(error), retry_after=error.retry_after)
