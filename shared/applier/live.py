"""Reads live objects of a cluster in few requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from shared.manifests import Identity, identity

from ..clients import ClusterClients
from ..kube import ApiError, Client, Key, NotFound, NotServed, Object, Resource
from ..kube.responses import understood
from .inventory import InventoryEntry
from .owner import Owner
from .pods import why_not_started
from .readiness import unready_reason

Live = Object | ApiError | None
"""The live object, the error of reading it, or None if it does not exist."""

LIST_FROM = 3
"""From this number of objects of one kind on, one list replaces single reads."""


def read_live(
    pool: ThreadPoolExecutor,
    cluster: ClusterClients,
    resources: Mapping[tuple[str, str], Resource],
    objects: Iterable[Object],
    owner: Owner,
) -> dict[Identity, Live]:
    """Reads these objects, by single reads or by a list for each kind.

    Args:
        pool: The threads to read with.
        cluster: The cluster to read from.
        resources: The kinds of the objects, by (apiVersion, kind).
        objects: The objects to read; only their kinds and names matter.
        owner: The owner whose labels most of the objects have.
    """
    kinds: dict[tuple[str, str], list[Identity]] = defaultdict(list)
    for obj in objects:
        kinds[obj["apiVersion"], obj["kind"]].append(identity(obj))
    reads: list[Callable[[], dict[Identity, Live]]] = []
    for kind, members in kinds.items():
        if len(members) >= LIST_FROM:
            reads.append(partial(_list, cluster, resources[kind], members, owner.selector))
        else:
            reads += [partial(_get, cluster, resources[kind], who) for who in members]
    found: dict[Identity, Live] = {}
    for objects_read in pool.map(lambda read: read(), reads):
        found |= objects_read
    return found


def find_live(cluster: ClusterClients, entry: InventoryEntry) -> tuple[Resource, Object] | None:
    """Returns the live object of an entry and its kind in a served version; None if it does not exist.

    Raises:
        ApiError: The API server failed, or does not allow reading the object.
    """
    try:
        return _find_served(cluster, entry)
    except NotServed:  # the version is no longer served, but another may be
        cluster.discovery.invalidate()
        return _find_served(cluster, entry)


def _find_served(cluster: ClusterClients, entry: InventoryEntry) -> tuple[Resource, Object] | None:
    resource = cluster.discovery.in_any_version(entry.api_version, entry.kind)
    if resource is None:
        return None  # the kind is gone, and its objects with it
    try:
        return resource, cluster.client.get(resource, Key(entry.namespace, entry.name))
    except NotFound:
        return None


def find_if_served(client: Client, resource: Resource, key: Key) -> Object | None:
    """Returns the live object; None even if its kind is not served yet, because the same sync may apply its CRD.

    A caller must not delete anything because of this None.
    """
    try:
        return client.find(resource, key)
    except NotServed:
        return None


def recheck_readiness(
    cluster: ClusterClients,
    entry: InventoryEntry,
    readiness_check: Callable[[Object], str] = unready_reason,
    *,
    with_pods: bool = False,
) -> InventoryEntry:
    """Returns the entry with the present wait of its live object, and with the reason of a pod that does not start.

    A Job that does not exist is complete, because its TTL has deleted it. Any other missing object is not ready.

    Raises:
        ApiError: The API server failed, or does not allow reading the object.
    """
    found = find_live(cluster, entry)
    if found is None:
        return replace(entry, waiting="" if (entry.group, entry.kind) == ("batch", "Job") else "no longer exists")
    with understood(str(entry)):
        waiting = readiness_check(found[1])
    if waiting and with_pods and (reason := why_not_started(cluster.client, found[1])):
        waiting = f"{waiting} ({reason})"
    return replace(entry, waiting=waiting)


def same_content(live: Object, other: Object) -> bool:
    """Returns whether two responses about one object differ in server bookkeeping only."""

    def content(obj: Object) -> Object:
        bookkeeping = ("managedFields", "resourceVersion", "generation")
        metadata = {name: value for name, value in obj["metadata"].items() if name not in bookkeeping}
        return {**obj, "metadata": metadata}

    return content(live) == content(other)


def _list(
    cluster: ClusterClients, resource: Resource, members: Sequence[Identity], selector: str
) -> dict[Identity, Live]:
    """Lists objects with our labels, in their namespace if they share one; reads other objects one by one."""
    wanted, namespaces = set(members), {who.namespace for who in members}
    namespace = namespaces.pop() if len(namespaces) == 1 else ""
    try:
        with understood(f"{resource.kind} list"):
            listed = cluster.client.list(resource, namespace, selector=selector)
            by_identity = {who: obj for obj in listed if (who := identity(obj)) in wanted}
    except ApiError as error:
        return dict.fromkeys(members, error)
    found: dict[Identity, Live] = {}
    for who in members:
        found |= {who: by_identity[who]} if who in by_identity else _get(cluster, resource, who)
    return found


def _get(cluster: ClusterClients, resource: Resource, who: Identity) -> dict[Identity, Live]:
    try:
        return {who: find_if_served(cluster.client, resource, Key(who.namespace, who.name))}
    except ApiError as error:
        return {who: error}
