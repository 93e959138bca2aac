"""`rollout_wake`: emits one event for each ClusterRollout whose Clusters may have changed."""

from __future__ import annotations

from shared.api.resources import CLUSTER_ROLLOUT
from shared.clients import Clients
from shared.event import Event
from shared.kube import NotServed, Object, key_of
from shared.runtime import Answer, Task, done
from shared.runtime.sink import emit
from shared.runtime.throttle import SharedRead
from shared.wake import wake_event

from .triggers import TRIGGERS

_ROLLOUTS: SharedRead[list[Object]] = SharedRead(pause=1.0)
"""The ClusterRollouts of all namespaces, which are few. The pause also limits how often they look at their Clusters."""


def run(clients: Clients, event: Event) -> Answer:
    """Handles a change of a Cluster, of its addons, or of a ClusterRollout, which may concern the others.

    It wakes all ClusterRollouts of the namespace, because the event does not show which one selected the Cluster
    before.
    """
    key = TRIGGERS.key(event)
    if key is None:
        return done("the event is not for this function")
    found = _ROLLOUTS.get(lambda: _read(clients))
    events = [wake_event(one, source="/rollout_wake") for one in found if key_of(one).namespace == key.namespace]
    if not events:
        return done("the namespace has no ClusterRollout")
    return emit(TRIGGERS, events, f"events for the ClusterRollouts of {key.namespace}")


def _read(clients: Clients) -> list[Object]:
    try:
        return list(clients.management.list(CLUSTER_ROLLOUT))
    except NotServed:
        return []


handle = Task(TRIGGERS, run).handle
