"""`provider_wake`: emits one event for each provider that a change affects."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from shared.api.provider import CORE, KINDS
from shared.api.resources import CONFIG_MAP
from shared.clients import Clients
from shared.event import Event
from shared.kube import Object
from shared.providers import peers, phases
from shared.runtime import Answer, Task, done
from shared.runtime.emit import emit

from .decide import affected_providers, may_reference
from .triggers import TRIGGERS

_PAUSE = 1.0
"""Least seconds between two lists of the providers: changes that arrive in between share the second list."""

_listing = threading.Lock()
_recent: tuple[float, Sequence[Object]] = (float("-inf"), ())
"""The last list of providers, and when its reading began, by the monotonic clock."""


def run(clients: Clients, event: Event) -> Answer:
    """Handles a change of the core provider, a Secret or a ConfigMap: emits an event for each affected provider."""
    providers = _providers(clients, since=time.monotonic())
    if not providers:
        return done("there are no providers")
    if event.kind == CONFIG_MAP.kind and not any(may_reference(provider, event.key) for provider in providers):
        # Nearly all ConfigMaps end here, without being read.
        return done("no provider is affected")
    changed = event.as_object
    # The decision needs the labels of a ConfigMap, or the conditions of a core provider: read a missing object.
    if event.object is None and event.kind in (CONFIG_MAP.kind, CORE.kind):
        resource = CONFIG_MAP if event.kind == CONFIG_MAP.kind else CORE.resource
        changed = clients.management.find(resource, event.key) or changed
    found = affected_providers(changed, providers)
    if not found:
        return done("no provider is affected")
    events = [phases.completion_event(phases.CHANGED, provider, resync=False) for provider in found]
    return emit(TRIGGERS, events, f"events for the providers affected by {event.kind} {event.key}")


def _providers(clients: Clients, since: float) -> Sequence[Object]:
    """Returns the providers as the API server had them at `since` (monotonic) or later.

    An older list may lack the provider that the change concerns, and a broker does not repeat a delivery if the answer
    requests it.
    """
    global _recent
    with _listing:
        if _recent[0] < since:
            time.sleep(max(0.0, _recent[0] + _PAUSE - time.monotonic()))
            _recent = (time.monotonic(), peers.list_providers(clients, *KINDS))
        return _recent[1]


handle = Task(TRIGGERS, run).handle
