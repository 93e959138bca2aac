"""Deleting one object that is not wanted any more, if it is still ours to delete."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ..charts.manifests import Identity, install_rank
from ..clients import Workload
from ..kube import ApiError, Conflict, Key, NotFound, Object, Resource, Unavailable, dig, key_of
from ..kube.client import METADATA_LIST
from ..kube.crds import CRD
from .inventory import KEPT as KEPT
from .inventory import NOT_SYNCED, OWNED, OWNED_LABEL, Entry
from .live import LIST_FROM
from .owner import Owner
from .policy import PREFIX, Policy

KEEP = ("metadata", "annotations", "helm.sh/resource-policy")

_GONE_WITHIN = 7.0
"""Seconds without anything going before a later look is better than waiting on. More than the five after which an API
server looks again whether the objects of a CRD are gone."""

_BUILT_IN = ("", "apps", "batch", "autoscaling", "policy", "extensions")


def is_custom(entry: Entry) -> bool:
    """Custom resources go before everything else: their controllers have to let go of them."""
    return entry.group not in _BUILT_IN and not entry.group.endswith(".k8s.io")


def backwards(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Custom resources, then the rest in reverse of the order of installation, then CRDs, namespaces last."""
    entries = sorted(entries, key=lambda entry: -install_rank({"kind": entry.kind}))
    crds = [entry for entry in entries if entry.kind == CRD.kind and entry.group == CRD.group]
    namespaces = [entry for entry in entries if entry.kind == "Namespace" and not entry.group]
    custom = [entry for entry in entries if is_custom(entry)]
    rest = [entry for entry in entries if entry not in crds and entry not in namespaces and entry not in custom]
    return [wave for wave in (custom, rest, crds, namespaces) if wave]


def prune(workload: Workload, entry: Entry, policy: Policy, known: Collection[Identity] = ()) -> Entry | None:
    """None once the object is deleted (see also `linger`). Else its entry: with an error where it has to be tried
    again, `kept` where it stays until somebody decides, unchanged without error where it is none of ours any more.
    `known` is the whole inventory: a CRD takes no other objects along.

    Raises `Unavailable` where the server fails.
    """
    failed = replace(entry, status=NOT_SYNCED)
    try:
        resource = workload.discovery.resource(entry.api_version, entry.kind)
        if resource is None:
            return None  # the kind is gone, and its objects with it
        key = Key(entry.namespace if resource.namespaced else "", entry.name)
        live = workload.client.find(resource, key)
        if live is None:
            return None
        if not policy.owner.has(live, entry) or dig(live, KEEP) == "keep":
            return replace(entry, error="")
        if resource.kind == CRD.kind and not policy.prune_crds:
            others = _others(workload, live, known)
            if others:
                hint = f"delete them, or annotate the {policy.owner.kind} with {PREFIX}prune-crds: true"
                return replace(entry, status=KEPT, error=f"kept: {others}; {hint}")
        workload.client.delete(resource, key, uid=live["metadata"]["uid"])
    except Conflict:
        return replace(entry, error="")  # replaced between the look and the deletion: not ours
    except Unavailable:
        raise
    except ApiError as error:
        return replace(failed, error=f"not pruned: {error.detail}")
    return None


def _others(workload: Workload, crd: Mapping[str, object], known: Iterable[Identity]) -> str:
    """What speaks against deleting a CRD: objects of its kind that are not in the inventory would go with it.

    The label does not tell: cluster stacks put it on theirs, too.
    """
    group, plural, kind = dig(crd, "spec.group", ""), dig(crd, "spec.names.plural", ""), dig(crd, "spec.names.kind", "")
    served = [version["name"] for version in dig(crd, "spec.versions", []) if version.get("served")]
    if not served:
        return ""
    resource = Resource(group, served[0], kind, plural, dig(crd, "spec.scope") == "Namespaced")
    ours = {Key(who.namespace, who.name) for who in known if (who.group, who.kind) == (group, kind)}
    query = {"limit": str(len(ours) + 1)}  # so many cannot all be ours
    page = workload.client.request("GET", resource.path(), query=query, accept=METADATA_LIST, subject=f"{kind} list")
    found = [key for key in map(key_of, page.get("items") or []) if key not in ours]
    if not found:
        return ""
    more = len(found) - 1 + int(dig(page, "metadata.remainingItemCount", 0))
    some = f"{kind} {found[0]}" + (f" and {more} more objects" if more else "")
    return f"{some} would be deleted with it and are not ours"


def linger(workload: Workload, entries: Iterable[Entry], owner: Owner | None = None) -> dict[Identity, str]:
    """Waits a while for what was deleted and takes its time: custom resources and CRDs. Returns what holds the rest.

    Raises `ApiError`.
    """
    waiting = [entry for entry in entries if is_custom(entry) or (entry.group, entry.kind) == (CRD.group, CRD.kind)]
    deadline, pause = time.monotonic() + _GONE_WITHIN, 0.02
    while waiting:
        left = _left(workload, waiting, owner or Owner())
        if not left or time.monotonic() > deadline:
            return {who: f"finalizers hold it: {', '.join(names) or 'none'}" for who, names in left.items()}
        if len(left) < len(waiting):  # some went: the rest have their time, too
            deadline = time.monotonic() + _GONE_WITHIN
        waiting = [entry for entry in waiting if entry.identity in left]
        time.sleep(pause)
        pause = min(pause * 2, 0.5)
    return {}


def _left(workload: Workload, entries: Sequence[Entry], owner: Owner) -> dict[Identity, list[str]]:
    """The finalizers of those that are still there: by one list for each kind and namespace, or by a look at each."""
    left: dict[Identity, list[str]] = {}
    places: dict[tuple[str, str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        places[entry.api_version, entry.kind, entry.namespace].append(entry)
    for (api_version, kind, namespace), members in places.items():
        resource = workload.discovery.resource(api_version, kind)
        if resource is None:
            continue
        there = {obj["metadata"]["name"]: obj for obj in _look(workload, resource, namespace, members)}
        for entry in members:
            live = there.get(entry.name)
            if live is not None and owner.has(live, entry):
                left[entry.identity] = live["metadata"].get("finalizers") or []
    return left


def _look(workload: Workload, resource: Resource, namespace: str, members: Sequence[Entry]) -> list[Object]:
    namespace = namespace if resource.namespaced else ""
    if len(members) < LIST_FROM:
        found = (workload.client.find(resource, Key(namespace, entry.name)) for entry in members)
        return [obj for obj in found if obj is not None]
    try:
        pages = workload.client.pages(
            resource, namespace, selector=f"{OWNED_LABEL}={OWNED}", accept=METADATA_LIST, limit=500
        )
        return [obj for page in pages for obj in page["items"]]
    except NotFound:
        return []  # the kind is gone, and its objects with it
