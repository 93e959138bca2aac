"""The function `cluster_resource_set`: applies the objects of a ClusterResourceSet to all Clusters that it selects."""

from __future__ import annotations

from shared.clients import Clients
from shared.event import Event
from shared.kube import Unavailable
from shared.runtime import Answer, Function
from shared.runtime.keyed_lock import KeyedLock

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

_LOCK = KeyedLock("this ClusterResourceSet", limit=3, each=1)
"""Serializes deliveries about one set within this process. The limit bounds the memory for the objects of sets.
A namespace has one slot, because its clusters may answer slowly."""

FUNCTION = Function(TRIGGERS, observe, decide)


def handle(clients: Clients, event: Event) -> Answer:
    """Handles an event about a ClusterResourceSet."""
    try:
        with _LOCK.hold((id(clients), TRIGGERS.key(event)), event.namespace):
            return FUNCTION.handle(clients, event)
    except Unavailable as error:
        return Answer(503, str(error), retry_after=error.retry_after)
