"""Objects that a function of this process wrote last; it then asked for the next step, which need not read them.

They are the API server's answers, since whoever may send events must not be trusted with their content. Another process
may have changed such an object meanwhile: it serves for a decision whose first write the API server rejects in that
case.
"""

from __future__ import annotations

from threading import Lock
from weakref import WeakKeyDictionary

from ..clients import Clients
from ..kube import Key, Object, Resource, key_of

_MOST = 32
"""Objects whose next step runs in another process, or never, are forgotten when so many others followed."""

_lock = Lock()
_kept: WeakKeyDictionary[Clients, dict[tuple[Resource, Key], Object]] = WeakKeyDictionary()


def keep(clients: Clients, resource: Resource, obj: Object) -> None:
    """Keeps an object, as the API server has answered a write, for the function that begins the next step."""
    with _lock:
        kept = _kept.setdefault(clients, {})
        kept.pop((resource, key_of(obj)), None)
        kept[resource, key_of(obj)] = obj
        if len(kept) > _MOST:
            del kept[next(iter(kept))]


def take(clients: Clients, resource: Resource, key: Key) -> Object | None:
    """Returns the object that was kept, once; None if there is none."""
    with _lock:
        return _kept.get(clients, {}).pop((resource, key), None)
