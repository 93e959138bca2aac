"""The entry of a ClusterResourceSet in the ClusterResourceSetBinding of a Cluster."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from shared.api.resource_set import SourceRef, binding_entry, recorded_sources
from shared.api.resources import CLUSTER_RESOURCE_SET_BINDING as BINDING
from shared.clients import Clients
from shared.effects import Delete, Patch, would_change
from shared.kube import Conflict, Object, dig, key_of, owner_reference, with_owner
from shared.kube.resources import owner_references

_ATTEMPTS = 8
"""How often a binding is read again that other sets write at the same time."""


def is_recorded(binding: Mapping[str, Any] | None, resource_set: Object) -> bool:
    """Returns whether the binding has an entry of the set, and names the set as an owner."""
    if binding is None or with_owner(binding, owner_reference(resource_set)) is not None:
        return False
    return binding_entry(binding, key_of(resource_set).name) is not None


def record(
    clients: Clients, resource_set: Object, cluster: Object, records: Sequence[Object], former: Collection[SourceRef]
) -> None:
    """Writes the records of sources into the binding, and removes the records of `former` sources.

    Does not write if nothing changes but the time of a failure. Raises `ApiError`, or `Conflict` if other writers were
    faster each time.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        binding = clients.management.find(BINDING, key_of(cluster))
        try:
            if binding is None:
                clients.management.create(BINDING, new_binding(resource_set, cluster, records))
            elif would_change(binding, patch := merged(binding, resource_set, records, former)):
                Patch(BINDING, binding, patch).execute(clients)
            return
        except Conflict:
            if attempt == _ATTEMPTS:
                raise
            time.sleep(random.uniform(0.01, 0.05) * attempt)  # noqa: S311 - jitter


def new_binding(resource_set: Object, cluster: Object, records: Sequence[Object]) -> Object:
    """Returns the binding of a Cluster that has none."""
    namespace, name = key_of(cluster)
    empty: Object = {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterName": name}}
    patch = merged(empty, resource_set, records, ())
    return {
        "apiVersion": BINDING.api_version,
        "kind": BINDING.kind,
        "metadata": {**empty["metadata"], **patch["metadata"]},
        "spec": {**empty["spec"], **patch["spec"]},
    }


def merged(
    binding: Object, resource_set: Object, records: Sequence[Object], former: Collection[SourceRef]
) -> dict[str, Any]:
    """Returns the merge patch that brings the records of the set's sources into the binding."""
    name = key_of(resource_set).name
    known = {ref: one for ref, one in recorded_sources(binding_entry(binding, name)).items() if ref not in former}
    for one in records:
        ref = SourceRef(one["kind"], one["name"])
        known[ref] = one if ref not in known or _differs(known[ref], one) else known[ref]
    entry: Object = {"clusterResourceSetName": name} | ({"resources": list(known.values())} if known else {})
    entries = [dict(one) for one in dig(binding, "spec.bindings", [])]
    has_entry = any(one.get("clusterResourceSetName") == name for one in entries)
    owners = with_owner(binding, owner_reference(resource_set))
    return {
        "metadata": {} if owners is None else {"ownerReferences": owners},
        "spec": {
            "bindings": [entry if one.get("clusterResourceSetName") == name else one for one in entries]
            if has_entry
            else [*entries, entry]
        },
    }


def _differs(before: Object, after: Object) -> bool:
    """Returns whether two records differ. A repeated failure is not a difference, although its time differs."""
    is_failure = not (before.get("applied") or after.get("applied"))
    times = {"lastAppliedTime": None} if is_failure else {}
    return {**before, **times} != {**after, **times}


def leave(binding: Object, resource_set: Object) -> Patch | Delete | None:
    """Returns the write that removes the set from the binding, and the binding with its last entry; None if not in it.

    The owner is found by its name too, because an earlier set of that name may have left an owner.
    """
    name = key_of(resource_set).name
    entries = dig(binding, "spec.bindings", [])
    others = [one for one in entries if dig(one, "clusterResourceSetName") != name]
    owners = without_owner(binding, resource_set)
    if len(others) == len(entries) and owners is None:
        return None
    if not others and not owners:
        return Delete(BINDING, binding, unchanged=True)  # another set may be adding its entry
    metadata = {} if owners is None else {"ownerReferences": owners}
    return Patch(BINDING, binding, {"metadata": metadata, "spec": {"bindings": others}})


def without_owner(obj: Mapping[str, Any], resource_set: Object) -> list[Mapping[str, Any]] | None:
    """Returns the owner references of an object without the set; None if the set is not among them."""
    own = owner_reference(resource_set)
    references = owner_references(obj)
    left = [
        one
        for one in references
        if one.get("uid") != own["uid"] and (one.get("kind"), one.get("name")) != (own["kind"], own["name"])
    ]
    return left if len(left) < len(references) else None
