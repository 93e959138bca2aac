"""Sends events to K_SINK, for functions that emit more than the one reply in an answer."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from .. import tracing
from ..event import Event
from ..triggers import Triggers
from . import sink
from .answer import Answer, done

NO_SINK = "K_SINK is not set: it must be the URL to send events to"


def emit(triggers: Triggers, events: Iterable[Event], description: str) -> Answer:
    """Posts events to the URL in K_SINK.

    Args:
        triggers: The declaration of the function that emits them.
        events: The events to post, in order.
        description: A noun for the events in the message of the answer: "3 <description>".

    Returns:
        The answer: 204, or 503 if there is no sink or it rejected an event.

    Raises:
        ValueError: `triggers.emits` lacks the type of an event, so that in a cluster no Trigger would deliver it.
    """
    events = list(events)
    for event in events:
        if event.type not in triggers.emits:
            raise ValueError(f"{triggers.name} does not declare that it emits {event.type}")
    url = os.environ.get("K_SINK", "")
    if not url:
        return Answer(503, NO_SINK, retry_after=30.0)
    sent = _send(url, events)
    if sent < len(events):
        return Answer(503, f"the sink rejected {len(events) - sent} of {len(events)} events", retry_after=5)
    return done(f"{sent} {description}")


def _send(url: str, events: Iterable[Event]) -> int:
    """Posts the events to a sink. Returns how many it accepted."""
    import urllib3

    accepted = 0
    with urllib3.PoolManager(timeout=10.0, retries=2, ssl_context=sink.tls()) as pool:
        for event in events:
            headers, body = replace(event, trace=tracing.current()).to_http()
            with suppress(urllib3.exceptions.HTTPError):
                response = pool.request(
                    "POST", url, body=body, headers=headers | sink.headers(url, event) | tracing.headers()
                )
                accepted += response.status < 300
    return accepted
