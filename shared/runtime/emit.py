"""Sending events where a function has more to say than the one reply that an answer has room for."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..event import Event
from ..triggers import Triggers
from .answer import Answer, done

NOWHERE = "K_SINK is not set: there is nowhere to send events to"


def emit(triggers: Triggers, events: Iterable[Event], told: str) -> Answer:
    """Sends all to K_SINK; `told` is what was sent, for the message. 503 where the sink does not take all.

    Raises ValueError for an event that `triggers.emits` does not declare: in a cluster it would have nowhere to go.
    """
    events = list(events)
    for event in events:
        if event.type not in triggers.emits:
            raise ValueError(f"{triggers.name} does not declare that it emits {event.type}")
    sink = os.environ.get("K_SINK", "")
    if not sink:
        return Answer(503, NOWHERE, retry_after=30.0)
    sent = sum(_send(sink, event) for event in events)
    if sent < len(events):
        return Answer(503, f"{len(events) - sent} of {len(events)} events were not taken by the sink", retry_after=5)
    return done(f"{sent} {told}")


def _send(sink: str, event: Event) -> bool:
    import urllib3

    headers, body = event.to_http()
    try:
        response = urllib3.request("POST", sink, body=body, headers=headers, timeout=10.0, retries=2)
    except urllib3.exceptions.HTTPError:
        return False
    return response.status < 300
