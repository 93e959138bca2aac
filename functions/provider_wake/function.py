"""`provider_wake`: emits one event for each provider that a change affects."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from shared.api.provider import CORE, KINDS
from shared.api.resources import CONFIG_MAP
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import ApiError, Object
from shared.providers import peers
from shared.runtime import Answer, done
from shared.runtime.emit import emit

from .decide import affected_providers, may_reference
from .triggers import TRIGGERS

SOURCE = "/provider_wake"
_FRESH = 5.0
"""Seconds that the list of providers is cached, since many Secrets may change at once. If a change is newer than the
list and affects no provider in it, the event is requeued until the list expires: it may affect a newer provider."""
_SKEW = 1.0
"""Seconds that the clock of an event's sender may be behind."""

_recent: tuple[float, Sequence[Object]] = (0.0, ())
"""The cached list of providers, and when it was read, in seconds since the epoch."""


def handle(clients: Clients, event: Event) -> Answer:
    """Handles a change of the core provider, a Secret or a ConfigMap: emits an event for each affected provider."""
    ref = TRIGGERS.primary_ref(event)
    if ref is None:
        return done("the event is not for this function")
    started = time.time()
    try:
        # An event about the core provider needs a fresh list: a provider that was just created may wait for it.
        read_at, providers = (
            (started, peers.list_providers(clients, *KINDS)) if event.kind == CORE.kind else _providers(clients)
        )
        retry_after = (
            None if read_at >= started or _is_older_than(event, read_at) else max(0.0, read_at + _FRESH - started)
        )
        if not providers:
            return done("there are no providers", retry_after=retry_after)
        if event.kind == CONFIG_MAP.kind and not any(may_reference(provider, event.key) for provider in providers):
            # Nearly all ConfigMaps end here, without being read.
            return done("no provider is affected", retry_after=retry_after)
        changed = event.as_object
        # The decision needs the labels of a ConfigMap, or the conditions of a core provider: read a missing object.
        if event.object is None and event.kind in (CONFIG_MAP.kind, CORE.kind):
            resource = CONFIG_MAP if event.kind == CONFIG_MAP.kind else CORE.resource
            changed = clients.management.find(resource, event.key) or changed
    except ApiError as error:
        return Answer(503, str(error), retry_after=5.0)
    found = affected_providers(changed, providers)
    if not found:
        return done("no provider is affected", retry_after=retry_after)
    events = [change_event(provider, "update", source=SOURCE, reference=True) for provider in found]
    return emit(TRIGGERS, events, f"events for the providers affected by {event.kind} {event.key}")


def _providers(clients: Clients) -> tuple[float, Sequence[Object]]:
    global _recent
    if time.time() - _recent[0] > _FRESH:
        started = time.time()
        _recent = (started, peers.list_providers(clients, *KINDS))
    return _recent


def _is_older_than(event: Event, read_at: float) -> bool:
    """Returns whether the event is older than the list, even if the sender's clock is behind."""
    try:
        return datetime.fromisoformat(event.time).timestamp() + _SKEW < read_at
    except ValueError:
        return False
