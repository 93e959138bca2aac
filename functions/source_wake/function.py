"""`source_wake`: emits one event for each object that reads a Secret or ConfigMap that has changed."""

from __future__ import annotations

from collections.abc import Iterator

from shared.api.resource_set import SourceRef
from shared.api.resources import CLUSTER_RESOURCE_SET, HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.clients import Clients
from shared.event import Event
from shared.kube import NotServed, Object, Resource, key_of
from shared.runtime import Answer, Task, done
from shared.runtime.sink import emit
from shared.runtime.throttle import SharedRead
from shared.wake import wake_event

from .decide import reads
from .triggers import TRIGGERS

_READERS: SharedRead[list[Object]] = SharedRead(pause=1.0)
"""The sets and charts of all namespaces, which are few. A broker sends all Secrets and ConfigMaps, and most end here.
"""


def run(clients: Clients, event: Event) -> Answer:
    """Handles a change of a Secret or ConfigMap, whose content it does not read."""
    affected = list(_affected(clients, event))
    if not affected:
        return done("no object reads it")
    events = [wake_event(obj, source="/source_wake") for obj in affected]
    return emit(TRIGGERS, events, f"events for the objects that read {event.kind} {event.key}")


def _affected(clients: Clients, event: Event) -> Iterator[Object]:
    changed, namespace = SourceRef(event.kind, event.name), event.namespace
    found = _READERS.get(lambda: [*_list(clients, CLUSTER_RESOURCE_SET), *_list(clients, HELM_CHART_PROXY)])
    readers = [obj for obj in found if key_of(obj).namespace == namespace and reads(obj, changed)]
    yield from (obj for obj in readers if obj["kind"] == CLUSTER_RESOURCE_SET.kind)
    if any(obj["kind"] == HELM_CHART_PROXY.kind for obj in readers):
        yield from (obj for obj in _list(clients, HELM_RELEASE_PROXY, namespace) if reads(obj, changed))


def _list(clients: Clients, resource: Resource, namespace: str = "") -> list[Object]:
    """Returns the objects of a kind, by default in all namespaces; none if the kind is not served."""
    try:
        return list(clients.management.list(resource, namespace))
    except NotServed:
        return []


handle = Task(TRIGGERS, run).handle
