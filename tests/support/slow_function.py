"""A function for functions-framework: it answers an event after the seconds in the event's data."""

from __future__ import annotations

import time

from shared.clients import Clients
from shared.event import Event
from shared.runtime import Answer
from shared.runtime.http import target


def _handle(_clients: Clients, event: Event) -> Answer:
    time.sleep(float(event.data.get("seconds", 0)))
    return Answer(204)


slow = target("slow", _handle)
