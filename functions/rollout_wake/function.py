"""`rollout_wake`: emits one event for each ClusterRollout whose Clusters may have changed."""

from __future__ import annotations

import time

from shared.api.resources import CLUSTER_ROLLOUT
from shared.clients import Clients
from shared.event import Event
from shared.kube import NotServed, Object
from shared.runtime import Answer, Task, done
from shared.runtime.sink import emit
from shared.wake import wake_event

from .triggers import TRIGGERS

PAUSE = 5.0
"""Seconds from one event to the next for the same ClusterRollouts, because each of them reads all its Clusters."""
_WOKEN: dict[str, float] = {}
"""The time of the last events by namespace, by the monotonic clock."""


def run(clients: Clients, event: Event) -> Answer:
    """Handles a change of a Cluster, of its addons, or of a ClusterRollout, which may concern the others.

    It wakes all ClusterRollouts of the namespace, because the event does not show which one selected the Cluster
    before.
    """
    key = TRIGGERS.key(event)
    if key is None:
        return done("the event is not for this function")
    now = time.monotonic()
    if (pause := _WOKEN.get(key.namespace, -PAUSE) + PAUSE - now) > 0:
        return done("they were woken a moment ago", retry_after=pause)
    events = [wake_event(one, source="/rollout_wake") for one in _read(clients, key.namespace)]
    if not events:
        return done("the namespace has no ClusterRollout")
    for namespace in [name for name, woken in list(_WOKEN.items()) if woken + PAUSE < now]:
        _WOKEN.pop(namespace, None)
    _WOKEN[key.namespace] = now
    return emit(TRIGGERS, events, f"events for the ClusterRollouts of {key.namespace}")


def _read(clients: Clients, namespace: str) -> list[Object]:
    try:
        return list(clients.management.list(CLUSTER_ROLLOUT, namespace))
    except NotServed:
        return []


handle = Task(TRIGGERS, run).handle
