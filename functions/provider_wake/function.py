"""`provider_wake`: one event for each provider that a change concerns."""

from __future__ import annotations

import time
from collections.abc import Sequence

from shared.api.provider import CORE, KINDS
from shared.api.resources import CONFIG_MAP
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import ApiError, Object
from shared.providers import peers
from shared.runtime import Answer, done
from shared.runtime.emit import emit

from .decide import concerned, may_name
from .triggers import TRIGGERS

SOURCE = "/provider_wake"
_FRESH = 5.0
"""Seconds that a list of the providers is good for: Secrets change in swarms, and a new provider reads its own."""

_recent: tuple[float, Sequence[Object]] = (0.0, ())


def handle(clients: Clients, event: Event) -> Answer:
    subject = TRIGGERS.subject(event)
    if subject is None:
        return done("no concern of this function")
    try:
        # Who came a moment ago may wait for the core provider by now.
        providers = peers.all_of(clients, *KINDS) if event.kind == CORE.kind else _providers(clients)
        if not providers:
            return done("there are no providers")
        if event.kind == CONFIG_MAP.kind and not any(may_name(provider, event.key) for provider in providers):
            return done("no provider is concerned")  # as with nearly all of them, which need not be read for it
        changed = event.as_object
        if event.object is None and event.kind in (CONFIG_MAP.kind, CORE.kind):  # what decides is not in the event
            resource = CONFIG_MAP if event.kind == CONFIG_MAP.kind else CORE.resource
            changed = clients.management.find(resource, event.key) or changed
    except ApiError as error:
        return Answer(503, str(error), retry_after=5.0)
    found = concerned(changed, providers)
    events = [change_event(provider, "update", source=SOURCE, reference=True) for provider in found]
    return emit(events, f"providers told of {event.kind} {event.key}") if found else done("no provider is concerned")


def _providers(clients: Clients) -> Sequence[Object]:
    global _recent
    read, found = _recent
    if time.monotonic() - read > _FRESH:
        found = peers.all_of(clients, *KINDS)
        _recent = (time.monotonic(), found)
    return found
