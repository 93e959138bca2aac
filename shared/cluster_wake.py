"""The event by which `cluster_wake` starts the functions of objects that depend on a changed Cluster.

One Cluster concerns many objects, but an event maps to one. So each of these objects gets an event of its own.
"""

from __future__ import annotations

from .event import OWN, Event, own_event
from .kube import Key, Object, Resource
from .triggers import Subscription

CHANGED = OWN + "cluster.changed"


def wake_event(obj: Object) -> Event:
    """Returns the event for an object whose Cluster has changed."""
    about = {name: obj[name] for name in ("apiVersion", "kind", "metadata")}
    subject = f"{obj['kind']} {obj['metadata'].get('name', '')}"
    return own_event(CHANGED.removeprefix(OWN), source="/cluster_wake", subject=subject, about=about, data={})


def subscription(resource: Resource) -> Subscription:
    """Returns the subscription of a function that reconciles objects of this kind."""

    def key(event: Event) -> Key | None:
        return event.key if event.kind == resource.kind else None

    return Subscription(CHANGED, key)
