"""`provider_wake`: emits one event for each provider that a change affects."""

from __future__ import annotations

from collections.abc import Sequence

from shared.api.provider import CORE, KINDS
from shared.api.resources import CONFIG_MAP
from shared.clients import Clients
from shared.event import Event
from shared.kube import Object
from shared.providers import peers, phases
from shared.runtime import Answer, Task, done
from shared.runtime.sink import emit
from shared.runtime.throttle import SharedRead

from .decide import affected_providers, may_reference
from .triggers import TRIGGERS

_PROVIDERS: SharedRead[Sequence[Object]] = SharedRead(pause=1.0)


def run(clients: Clients, event: Event) -> Answer:
    """Handles a change of the core provider, a Secret or a ConfigMap: emits an event for each affected provider."""
    providers = _PROVIDERS.get(lambda: peers.list_providers(clients, *KINDS))
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


handle = Task(TRIGGERS, run).handle
