"""Finds the objects with our label, to begin an inventory if the status has none.

cluster-stack-operator labels applied objects as we do, but keeps no record of them after its stages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from shared import tracing
from shared.api.resources import CLUSTER_ADDON
from shared.applier.inventory import InventoryEntry, entry_of
from shared.applier.sync import THREADS
from shared.clients import ClusterClients
from shared.kube import ApiError, Resource, Unavailable, dig
from shared.kube.client import METADATA_LIST
from shared.kube.responses import understood

from .owner import OWNER

_COPIES = ("Endpoints", "EndpointSlice", "Event")
"""Kinds that controllers create with the labels of another object and without an owner reference."""
MAX_INVENTORY = 3 * 2**19
"""Bytes of an inventory: the API server limits an object to 1.5 MiB."""


def labelled_entries(cluster: ClusterClients, served: Iterable[Resource]) -> list[InventoryEntry]:
    """Returns entries for all objects that have our label and no owner reference.

    Returns none for a management cluster, where ClusterClasses carry the same label.

    Args:
        cluster: The cluster to search.
        served: The kinds that the cluster serves.

    Raises:
        Unavailable: The API server failed, or has more such objects than an inventory can hold.
    """
    served, budget = list(served), _Budget(MAX_INVENTORY)
    if any(resource.group == CLUSTER_ADDON.group for resource in served):
        return []
    newest = {(resource.group, resource.kind): resource for resource in reversed(served)}
    kinds = [resource for resource in newest.values() if resource.kind not in _COPIES]
    with ThreadPoolExecutor(THREADS, thread_name_prefix="adopt", initializer=tracing.in_threads()) as pool:
        found = pool.map(lambda resource: _entries_of_kind(cluster, resource, budget), kinds)
        return [entry for entries in found for entry in entries]


class _Budget:
    """The bytes that the entries of all kinds may have together."""

    def __init__(self, size: int) -> None:
        self._left, self._lock = size, Lock()

    def take(self, entry: InventoryEntry) -> InventoryEntry:
        """Returns the entry. Raises `Unavailable` if it exceeds the limit."""
        with self._lock:
            self._left -= len(json.dumps(entry.dump()))
            if self._left < 0:
                raise Unavailable(f"more objects have the label {OWNER.selector} than an inventory can hold")
        return entry


def _entries_of_kind(cluster: ClusterClients, resource: Resource, budget: _Budget) -> list[InventoryEntry]:
    pages = cluster.client.pages(resource, selector=OWNER.selector, accept=METADATA_LIST)
    own = (item for page in pages for item in page["items"] if not dig(item, "metadata.ownerReferences"))
    named = ({**item, "apiVersion": resource.api_version, "kind": resource.kind} for item in own)
    try:
        with understood(f"{resource.kind} list"):
            return [budget.take(entry_of(obj)) for obj in named]
    except Unavailable:
        raise
    except ApiError:
        return []  # the kind cannot be listed, so we applied none of its objects
