"""Deleting one object that is not wanted any more, if it is still ours to delete."""

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
from .cascade import cascade_blocker, is_marked_keep
from .inventory import KEPT as KEPT
from .inventory import NOT_SYNCED, OWNED, OWNED_LABEL, InventoryEntry
from .live import LIST_FROM, find_live
from .owner import Owner
from .policy import Policy

_ATTEMPTS = 4
_GONE_WITHIN = 7.0
"""Seconds without anything going before a later look is better than waiting on. More than the five after which an API
server looks again whether the objects of a CRD are gone."""


def is_custom_resource(entry: InventoryEntry) -> bool:
    """Custom resources go before everything else: their controllers have to let go of them."""
    return entry.group not in BUILT_IN_GROUPS


def prune_waves(entries: Iterable[InventoryEntry]) -> list[list[InventoryEntry]]:
    """Custom resources, then the rest in reverse of the order of installation, then CRDs, namespaces last."""
    entries = sorted(entries, key=lambda entry: -install_rank({"kind": entry.kind}))
    crds = [entry for entry in entries if entry.kind == CRD.kind and entry.group == CRD.group]
    namespaces = [entry for entry in entries if entry.kind == "Namespace" and not entry.group]
    custom = [entry for entry in entries if is_custom_resource(entry)]
    rest = [entry for entry in entries if entry not in crds and entry not in namespaces and entry not in custom]
    return [wave for wave in (custom, rest, crds, namespaces) if wave]


def prune(
    cluster: ClusterClients, entry: InventoryEntry, policy: Policy, inventoried: Collection[Identity] = ()
) -> InventoryEntry | None:
    """None once the object is deleted (see also `linger`). Else its entry: with an error where it has to be tried
    again, `kept` where it stays until somebody decides, unchanged without error where it is none of ours any more.
    `known` is the whole inventory: see `containers` for what goes with a CRD or Namespace.

    Raises `Unavailable` where the server fails.
    """
    for _ in range(_ATTEMPTS):
        try:
            return _prune(cluster, entry, policy, inventoried)
        except Conflict as error:  # it changed between the look and the deletion, and may be none of ours now
            refusal: ApiError = error
        except Unavailable:
            raise
        except ApiError as error:
            refusal = error
            break
    return replace(entry, status=NOT_SYNCED, error=f"not pruned: {refusal.detail}")


def _prune(
    cluster: ClusterClients, entry: InventoryEntry, policy: Policy, inventoried: Collection[Identity]
) -> InventoryEntry | None:
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


def await_deletion(
    cluster: ClusterClients, entries: Iterable[InventoryEntry], owner: Owner | None = None
) -> dict[Identity, str]:
    """Waits a while for what was deleted and takes its time: custom resources and CRDs. Returns what holds the rest.

    Raises `ApiError`.
    """
    waiting = [
        entry for entry in entries if is_custom_resource(entry) or (entry.group, entry.kind) == (CRD.group, CRD.kind)
    ]
    deadline, pause = time.monotonic() + _GONE_WITHIN, 0.02
    while waiting:
        left = _remaining(cluster, waiting, owner or Owner())
        if not left or time.monotonic() > deadline:
            return {who: f"finalizers hold it: {', '.join(names) or 'none'}" for who, names in left.items()}
        if len(left) < len(waiting):  # some went: the rest have their time, too
            deadline = time.monotonic() + _GONE_WITHIN
        waiting = [entry for entry in waiting if entry.identity in left]
        time.sleep(pause)
        pause = min(pause * 2, 0.5)
    return {}


def _remaining(cluster: ClusterClients, entries: Sequence[InventoryEntry], owner: Owner) -> dict[Identity, list[str]]:
    """The finalizers of those that are still there: by one list for each kind and namespace, or by a look at each."""
    left: dict[Identity, list[str]] = {}
    places: dict[tuple[str, str, str], list[InventoryEntry]] = defaultdict(list)
    for entry in entries:
        places[entry.api_version, entry.kind, entry.namespace].append(entry)
    for (api_version, kind, namespace), members in places.items():
        there = {obj["metadata"]["name"]: obj for obj in _list_members(cluster, api_version, kind, namespace, members)}
        for entry in members:
            live = there.get(entry.name)
            if live is not None and owner.has(live, entry):
                left[entry.identity] = live["metadata"].get("finalizers") or []
    return left


def _list_members(
    cluster: ClusterClients, api_version: str, kind: str, namespace: str, members: Sequence[InventoryEntry]
) -> list[Object]:
    """None where the kind is gone, and its objects with it."""
    for last in (False, True):
        resource = cluster.discovery.in_any_version(api_version, kind)
        if resource is None:
            break
        try:
            return _read_members(cluster, resource, namespace, members)
        except NotServed:
            if last:
                raise
            cluster.discovery.invalidate()  # not served any more, at least not in this version
    return []


def _read_members(
    cluster: ClusterClients, resource: Resource, namespace: str, members: Sequence[InventoryEntry]
) -> list[Object]:
    namespace = namespace if resource.namespaced else ""
    if len(members) < LIST_FROM:
        found = (cluster.client.find(resource, Key(namespace, entry.name)) for entry in members)
        return [obj for obj in found if obj is not None]
    pages = cluster.client.pages(
        resource, namespace, selector=f"{OWNED_LABEL}={OWNED}", accept=METADATA_LIST, limit=500
    )
    return [obj for page in pages for obj in page["items"]]
