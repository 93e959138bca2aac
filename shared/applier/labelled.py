"""Finds the objects that carry our label, to begin an inventory where there is none.

cluster-stack-operator labels the objects that it applies as we do, and keeps no record of them after its stages.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from .. import tracing
from ..api.resources import CLUSTER_ADDON
from ..clients import ClusterClients
from ..kube import ApiError, Object, Resource, Unavailable, dig
from ..kube.client import METADATA_LIST
from .inventory import OWNED, OWNED_LABEL, InventoryEntry, entry_of
from .rollout import THREADS

_COPIES = ("Endpoints", "EndpointSlice", "Event")
"""Kinds that controllers create with the labels of another object and without an owner reference."""


def labelled_entries(cluster: ClusterClients, served: Iterable[Resource]) -> list[InventoryEntry]:
    """Returns entries for all objects that have our label and no owner reference.

    Returns none for a management cluster, where ClusterClasses carry the same label.

    Args:
        cluster: The cluster to search.
        served: The kinds that the cluster serves.

    Raises:
        Unavailable: The API server failed.
    """
    served = list(served)
    if any(resource.group == CLUSTER_ADDON.group for resource in served):
        return []
    newest = {(resource.group, resource.kind): resource for resource in reversed(served)}
    kinds = [resource for resource in newest.values() if resource.kind not in _COPIES]
    with ThreadPoolExecutor(THREADS, thread_name_prefix="adopt", initializer=tracing.in_threads()) as pool:
        found = pool.map(lambda resource: _entries_of_kind(cluster, resource), kinds)
        return [entry for entries in found for entry in entries]


def _entries_of_kind(cluster: ClusterClients, resource: Resource) -> list[InventoryEntry]:
    pages = cluster.client.pages(resource, selector=f"{OWNED_LABEL}={OWNED}", accept=METADATA_LIST)
    try:
        items: list[Object] = [item for page in pages for item in page["items"]]
    except Unavailable:
        raise
    except ApiError:
        return []  # the kind cannot be listed, so none of its objects was applied from here
    entries = []
    for item in items:
        if not dig(item, "metadata.ownerReferences"):
            obj = {**item, "apiVersion": resource.api_version, "kind": resource.kind}
            entries.append(entry_of(obj))
    return entries
