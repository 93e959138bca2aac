"""Sends events to a Knative sink (K_SINK), with the token and the CA that a SinkBinding provides.

https://knative.dev/docs/eventing/features/sender-identity/ and /docs/eventing/features/transport-encryption/
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import tracing
from ..event import Event
from ..triggers import Triggers
from . import callers
from .answer import Answer, done

TOKEN = Path("/oidc/token")
"""The token of this sender, which Knative renews; absent if it does not check senders."""
AUTHORITIES = Path("/knative-custom-certs")
"""The folder with the CAs that the cluster's administrators trust (trust bundles), if there are any."""


class _SinkTls(ssl.SSLContext):
    """Trusts the CAs of the system, and the CAs in trust bundles at the time when a connection opens."""

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        for bundle in AUTHORITIES.glob("[!.]*"):
            with suppress(OSError):  # not a file with certificates: the others may suffice
                self.load_verify_locations(bundle)
        return super().wrap_socket(*arguments, **options)


def headers(url: str, event: Event, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the headers for an event to the sink at `url`: who sends it, and which events stay in order.

    Only the sink of the SinkBinding (K_SINK) gets the token, which is made for it and read anew for each request.
    """
    return (_authorization(environment) if url == environment.get("K_SINK") else {}) | _partition(event)


def _authorization(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the header with the token of Knative, else with the token of a local run, if there is one."""
    return callers.authorization(TOKEN) or callers.authorization(callers.token_file(environment))


def _partition(event: Event) -> dict[str, str]:
    """Returns the header by which a Broker of the class Kafka keeps the events about one object in order.

    It is the extension `partitionkey`: https://github.com/cloudevents/spec/blob/main/cloudevents/extensions/partitioning.md
    """
    return {"ce-partitionkey": f"{event.kind}.{event.group}/{event.namespace}/{event.name}"} if event.kind else {}


def tls() -> ssl.SSLContext | None:
    """Returns the TLS settings for a sink by K_CA_CERTS and trust bundles; None for the CAs of the system alone."""
    authorities = os.environ.get("K_CA_CERTS")
    if not authorities and not AUTHORITIES.is_dir():
        return None
    context = _SinkTls(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    if authorities:
        context.load_verify_locations(cadata=authorities)
    return context


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
    with urllib3.PoolManager(timeout=10.0, retries=2, ssl_context=tls()) as pool:
        for event in events:
            described, body = replace(event, trace=tracing.current()).to_http()
            with suppress(urllib3.exceptions.HTTPError):
                response = pool.request(
                    "POST", url, body=body, headers=described | headers(url, event) | tracing.headers()
                )
                accepted += response.status < 300
    return accepted
