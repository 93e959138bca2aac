"""Prunes objects: deletes objects that are no longer desired and still belong to the owner."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from shared.manifests import Identity, install_rank

from ..clients import ClusterClients
from ..kube import ApiError, Conflict, Key, NotServed, Object, Resource, Unavailable, key_of
from ..kube.client import METADATA_LIST
from ..kube.crds import CRD
from ..kube.resources import BUILT_IN_GROUPS
from .cascade import CASCADING, cascade_blocker, is_marked_keep
from .inventory import KEPT as KEPT
from .inventory import NOT_SYNCED, InventoryEntry
from .live import LIST_FROM, find_live
from .owner import Owner
from .policy import Policy

_ATTEMPTS = 4
_GONE_WITHIN = 7.0
"""Seconds to wait for the next of several deletions. Longer than the five seconds after which an API server rechecks
whether a deleted CRD's objects are gone."""


def is_custom_resource(entry: InventoryEntry) -> bool:
    """Returns whether the object is a custom resource. These are deleted first, while controllers remove finalizers."""
    return entry.group not in BUILT_IN_GROUPS


def prune_waves(entries: Iterable[InventoryEntry]) -> list[list[InventoryEntry]]:
    """Orders entries for deletion: custom resources, built-in kinds in reverse install order, CRDs, namespaces."""
    entries = sorted(entries, key=lambda entry: -install_rank({"kind": entry.kind}))
    crds = [entry for entry in entries if entry.kind == CRD.kind and entry.group == CRD.group]
    namespaces = [entry for entry in entries if entry.kind == "Namespace" and not entry.group]
    custom = [entry for entry in entries if is_custom_resource(entry)]
    rest = [entry for entry in entries if entry not in crds and entry not in namespaces and entry not in custom]
    return [wave for wave in (custom, rest, crds, namespaces) if wave]


def prune(
    cluster: ClusterClients, entry: InventoryEntry, policy: Policy, inventoried: Collection[Identity] = ()
) -> InventoryEntry | None:
    """Deletes the object of an entry, if it is ours; `await_deletion` waits until it is gone.

    Args:
        cluster: The cluster to delete from.
        entry: The inventory entry of the object.
        policy: The owner of the objects, and whether a CRD is deleted although objects of its kind are not ours.
        inventoried: The identities of the whole inventory: see `cascade_blocker`.

    Returns: None once the object is deleted. Otherwise its entry, with an error if the deletion must be repeated, with
    status `kept` if it stays until a person decides, and without error if it is no longer ours.

    Raises:
        Unavailable: The API server failed.
    """
    for _ in range(_ATTEMPTS):
        try:
            return _prune(cluster, entry, policy, inventoried)
        except Conflict as error:  # the object has changed since, and may no longer be ours
            refusal: ApiError = error
            entry = replace(entry, revision="")
        except Unavailable:
            raise
        except ApiError as error:
            refusal = error
            break
    return replace(entry, status=NOT_SYNCED, error=f"not pruned: {refusal.detail}")


def _prune(
    cluster: ClusterClients, entry: InventoryEntry, policy: Policy, inventoried: Collection[Identity]
) -> InventoryEntry | None:
    if not policy.owner.exclusive and _delete_unchanged(cluster, entry):
        return None
    found = find_live(cluster, entry)
    if found is None:
        return None
    resource, live = found
    if not policy.owner.has(live, entry) or is_marked_keep(live):
        return replace(entry, error="")
    held = cascade_blocker(cluster, live, policy, inventoried)
    if held:
        return replace(entry, status=KEPT, error=f"kept: {held}")
    metadata = live["metadata"]
    cluster.client.delete(resource, key_of(live), uid=metadata["uid"], version=metadata["resourceVersion"])
    return None


def _delete_unchanged(cluster: ClusterClients, entry: InventoryEntry) -> bool:
    """Deletes the object without a read if its entry allows that. Returns whether it is gone.

    At the last apply the object was ours and not to be kept. The version is a precondition, so this still holds. Raises
    `Conflict` if the object has changed since.
    """
    if not entry.revision or entry.kind in CASCADING:
        return False
    resource = cluster.discovery.in_any_version(entry.api_version, entry.kind)
    if resource is None:
        return False
    try:
        cluster.client.delete(resource, Key(entry.namespace, entry.name), uid=entry.uid, version=entry.revision)
    except NotServed:
        return False
    return True


def await_deletion(cluster: ClusterClients, entries: Iterable[InventoryEntry], owner: Owner) -> dict[Identity, str]:
    """Waits until deleted custom resources and CRDs are gone.

    Args:
        cluster: The cluster that they were deleted from.
        entries: The entries of deleted objects; objects of built-in kinds other than CRD are not waited for.
        owner: The owner of the objects.

    Returns:
        For each object that still exists, by identity, the finalizers that hold it.

    Raises:
        ApiError: The API server failed.
    """
    waiting = [
        entry for entry in entries if is_custom_resource(entry) or (entry.group, entry.kind) == (CRD.group, CRD.kind)
    ]
    deadline, pause = time.monotonic() + _GONE_WITHIN, 0.02
    while waiting:
        left = _remaining(cluster, waiting, owner)
        if not left or time.monotonic() > deadline:
            return {who: f"finalizers delay the deletion: {', '.join(names) or 'none'}" for who, names in left.items()}
        if len(left) < len(waiting):  # progress: the others get the full time again
            deadline = time.monotonic() + _GONE_WITHIN
        waiting = [entry for entry in waiting if entry.identity in left]
        time.sleep(pause)
        pause = min(pause * 2, 0.5)
    return {}


def _remaining(cluster: ClusterClients, entries: Sequence[InventoryEntry], owner: Owner) -> dict[Identity, list[str]]:
    """Returns the finalizers of the objects that still exist, by identity."""
    left: dict[Identity, list[str]] = {}
    places: dict[tuple[str, str, str], list[InventoryEntry]] = defaultdict(list)
    for entry in entries:
        places[entry.api_version, entry.kind, entry.namespace].append(entry)
    for (api_version, kind, namespace), members in places.items():
        there = _list_members(cluster, api_version, kind, namespace, members, owner.selector)
        for entry in members:
            live = there.get(entry.name)
            if live is not None and owner.has(live, entry):
                left[entry.identity] = live["metadata"].get("finalizers") or []
    return left


def _list_members(
    cluster: ClusterClients,
    api_version: str,
    kind: str,
    namespace: str,
    members: Sequence[InventoryEntry],
    selector: str,
) -> dict[str, Object]:
    """Returns the objects of these entries by name; none if the kind, and so its objects, are no longer served."""
    for last in (False, True):
        resource = cluster.discovery.in_any_version(api_version, kind)
        if resource is None:
            break
        try:
            return _read_members(cluster, resource, namespace, members, selector)
        except NotServed:
            if last:
                raise
            cluster.discovery.invalidate()  # no longer served in this version
    return {}


def _read_members(
    cluster: ClusterClients, resource: Resource, namespace: str, members: Sequence[InventoryEntry], selector: str
) -> dict[str, Object]:
    """Reads the objects of few entries one by one; for many, lists those with our labels. Returns them by name."""
    namespace = namespace if resource.namespaced else ""
    if len(members) < LIST_FROM:
        found = {entry.name: cluster.client.find(resource, Key(namespace, entry.name)) for entry in members}
        return {name: obj for name, obj in found.items() if obj is not None}
    pages = cluster.client.pages(resource, namespace, selector=selector, accept=METADATA_LIST, limit=500)
    listed = ((obj["metadata"]["name"], obj) for page in pages for obj in page["items"])
    names = {entry.name for entry in members}
    return {name: obj for name, obj in listed if name in names}
