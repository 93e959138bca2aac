"""Looking at objects as they are in a workload cluster, in as few requests as tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from shared.manifests import Identity, identity

from ..clients import ClusterClients
from ..kube import ApiError, Client, Key, NotFound, NotServed, Object, Resource
from .inventory import OWNED, OWNED_LABEL, InventoryEntry
from .readiness import unready_reason

Live = Object | ApiError | None
"""An object as it is in the cluster, why it could not be read, or that it is not there."""

LIST_FROM = 3
"""Objects of one kind from which on one list is cheaper than a look at each."""


def read_live(
    pool: ThreadPoolExecutor,
    cluster: ClusterClients,
    resources: Mapping[tuple[str, str], Resource],
    objects: Iterable[Object],
) -> dict[Identity, Live]:
    """These objects as they are in the cluster, of whatever kinds."""
    kinds: dict[tuple[str, str], list[Identity]] = defaultdict(list)
    for obj in objects:
        kinds[obj["apiVersion"], obj["kind"]].append(identity(obj))
    looks: list[Callable[[], dict[Identity, Live]]] = []
    for kind, members in kinds.items():
        if len(members) >= LIST_FROM:
            looks.append(partial(_list, cluster, resources[kind], members))
        else:
            looks += [partial(_get, cluster, resources[kind], who) for who in members]
    found: dict[Identity, Live] = {}
    for part in pool.map(lambda one: one(), looks):
        found |= part
    return found


def find_live(cluster: ClusterClients, entry: InventoryEntry) -> tuple[Resource, Object] | None:
    """The object of an entry and the kind that serves it, in whatever version; None where it is not there.

    Raises `ApiError`.
    """
    try:
        return _find_served(cluster, entry)
    except NotServed:  # a version that is not served any more, though it was
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
    """An object that is to be applied, as it is now; None also where its kind is not served yet.

    Its CRD may come with it. Nothing is deleted on this answer.
    """
    try:
        return client.find(resource, key)
    except NotServed:
        return None


def recheck_readiness(
    cluster: ClusterClients, entry: InventoryEntry, readiness_check: Callable[[Object], str] = unready_reason
) -> InventoryEntry:
    """The entry with what its object is waiting for now. Raises `ApiError`.

    A Job that is not there is over: its time to live takes it away.
    """
    found = find_live(cluster, entry)
    if found is None:
        return replace(entry, waiting="" if (entry.group, entry.kind) == ("batch", "Job") else "is not there any more")
    return replace(entry, waiting=readiness_check(found[1]))


def same_content(live: Object, other: Object) -> bool:
    """Whether two answers about one object differ in no more than bookkeeping."""

    def content(obj: Object) -> Object:
        bookkeeping = ("managedFields", "resourceVersion", "generation")
        metadata = {name: value for name, value in obj["metadata"].items() if name not in bookkeeping}
        return {**obj, "metadata": metadata}

    return content(live) == content(other)


def _list(cluster: ClusterClients, resource: Resource, members: Sequence[Identity]) -> dict[Identity, Live]:
    """One list for all of them, of their namespace if they have one, and a look at each that lost our label."""
    namespaces = {who.namespace for who in members}
    namespace = namespaces.pop() if len(namespaces) == 1 else ""
    try:
        listed = cluster.client.list(resource, namespace, selector=f"{OWNED_LABEL}={OWNED}")
        there = {identity(obj): obj for obj in listed}
    except ApiError as error:
        return dict.fromkeys(members, error)
    found: dict[Identity, Live] = {}
    for who in members:
        found |= {who: there[who]} if who in there else _get(cluster, resource, who)
    return found


def _get(cluster: ClusterClients, resource: Resource, who: Identity) -> dict[Identity, Live]:
    try:
        return {who: find_if_served(cluster.client, resource, Key(who.namespace, who.name))}
    except ApiError as error:
        return {who: error}
