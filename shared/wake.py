"""The event by which tasks such as `cluster_wake` start the functions of objects that depend on a changed object.

One Cluster, or one ConfigMap with values, concerns many objects, but an event maps to one. So each of these objects
gets an event of its own.
"""

from __future__ import annotations

from .event import OWN, Event, own_event
from .kube import Object

CHANGED = OWN + "dependency.changed"


def wake_event(obj: Object, *, source: str) -> Event:
    """Returns the event of a function, the `source`, for an object that depends on a changed one."""
    about = {name: obj[name] for name in ("apiVersion", "kind", "metadata")}
    subject = f"{obj['kind']} {obj['metadata'].get('name', '')}"
    return own_event(CHANGED.removeprefix(OWN), source=source, subject=subject, about=about, data={})
