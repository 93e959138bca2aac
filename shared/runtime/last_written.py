"""Objects as this process wrote them last, so that a later event without the object needs no read.

They are the API server's answers, since whoever may send events must not be trusted with their content. Another process
may have changed such an object meanwhile. So it serves only for a decision whose first write the API server rejects in
that case.
"""

from __future__ import annotations

import json
import zlib
from threading import Lock
from weakref import WeakKeyDictionary

from ..clients import Clients
from ..kube import Key, Object, Resource, key_of

_MOST = 4 * 1024 * 1024
"""Bytes: objects that are never taken, or by another process, are forgotten when so much followed."""

_lock = Lock()
_kept: WeakKeyDictionary[Clients, dict[tuple[Resource, Key], bytes]] = WeakKeyDictionary()
"""The objects, compressed: a ClusterAddon with 15 objects takes 2 KiB instead of 50."""


def keep(clients: Clients, resource: Resource, obj: Object) -> None:
    """Keeps an object, as the API server has answered a write."""
    compressed = zlib.compress(json.dumps(obj).encode(), level=1)
    with _lock:
        kept = _kept.setdefault(clients, {})
        kept.pop((resource, key_of(obj)), None)
        kept[resource, key_of(obj)] = compressed
        while sum(map(len, kept.values())) > _MOST:
            del kept[next(iter(kept))]


def take(clients: Clients, resource: Resource, key: Key) -> Object | None:
    """Returns the object that was kept, once; None if there is none."""
    with _lock:
        compressed = _kept.get(clients, {}).pop((resource, key), None)
    return _decompressed(compressed)


def find(clients: Clients, resource: Resource, key: Key) -> Object | None:
    """Returns the object that was kept, again and again; None if there is none."""
    with _lock:
        compressed = _kept.get(clients, {}).get((resource, key))
    return _decompressed(compressed)


def forget(clients: Clients, resource: Resource) -> None:
    """Forgets the objects of a kind, since others write them, too: replicas of this process, each in its turn."""
    with _lock:
        kept = _kept.get(clients, {})
        for known in [one for one in kept if one[0] == resource]:
            del kept[known]


def _decompressed(compressed: bytes | None) -> Object | None:
    found: Object | None = json.loads(zlib.decompress(compressed)) if compressed is not None else None
    return found
