"""What another program left in a workload cluster under our label: the start of an inventory where there is none.

cluster-stack-operator labels what it applies just as we do, and forgets which objects those were once its stages are
done.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from ..api.resources import CLUSTER_ADDON
from ..clients import ClusterClients
from ..kube import ApiError, Object, Resource, Unavailable, dig
from ..kube.client import METADATA_LIST
from .inventory import OWNED, OWNED_LABEL, InventoryEntry, entry_of
from .rollout import THREADS

_COPIES = ("Endpoints", "EndpointSlice", "Event")
"""Kinds that controllers make with the labels of what they stand for, without naming an owner."""


def labelled_entries(cluster: ClusterClients, served: Iterable[Resource]) -> list[InventoryEntry]:
    """The objects with our label that no other object owns. Raises `Unavailable` where the server fails.

    None of a cluster that manages clusters itself: there ClusterClasses carry the same label.
    """
    served = list(served)
    if any(resource.group == CLUSTER_ADDON.group for resource in served):
        return []
    newest = {(resource.group, resource.kind): resource for resource in reversed(served)}
    kinds = [resource for resource in newest.values() if resource.kind not in _COPIES]
    with ThreadPoolExecutor(THREADS, thread_name_prefix="adopt") as pool:
        found = pool.map(lambda resource: _of_kind(cluster, resource), kinds)
        return [entry for entries in found for entry in entries]


def _of_kind(cluster: ClusterClients, resource: Resource) -> list[InventoryEntry]:
    pages = cluster.client.pages(resource, selector=f"{OWNED_LABEL}={OWNED}", accept=METADATA_LIST)
    try:
        items: list[Object] = [item for page in pages for item in page["items"]]
    except Unavailable:
        raise
    except ApiError:
        return []  # not a kind that can be listed, or not by us: nothing of it was applied from here
    entries = []
    for item in items:
        if not dig(item, "metadata.ownerReferences"):
            obj = {**item, "apiVersion": resource.api_version, "kind": resource.kind}
            entries.append(entry_of(obj))
    return entries
