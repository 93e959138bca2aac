"""`provider_install`, put together."""

from __future__ import annotations

from functools import partial

from shared.clients import Clients
from shared.event import Event
from shared.providers.status import INSTALLED
from shared.providers.telling import refusal, secrets
from shared.runtime import Answer, Function

from .decide import decide
from .observe import observe
from .overtaken import overtaken
from .report import report
from .triggers import TRIGGERS


def handle(clients: Clients, event: Event) -> Answer:
    again = event.resync
    look, judge, tell = partial(observe, resync=again), partial(decide, resync=again), partial(report, resync=again)
    refused = refusal(INSTALLED, "InstallFailed")
    function = Function(TRIGGERS, look, judge, report=tell, overtaken=overtaken, refused=refused, withheld=secrets)
    return function.handle(clients, event)
