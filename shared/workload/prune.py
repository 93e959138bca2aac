"""Deleting one object that is not wanted any more, if it is still ours to delete."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..charts.manifests import install_rank
from ..clients import Workload
from ..kube import ApiError, Conflict, Key, Object, Resource, Unavailable, dig
from ..kube.crds import CRD
from .inventory import NOT_SYNCED, OWNED, OWNED_LABEL, Entry, is_owned
from .policy import PREFIX, Policy

KEEP = ("metadata", "annotations", "helm.sh/resource-policy")
KEPT = "kept"
"""Status of what stays in the cluster, and in the inventory, until somebody decides."""

_GONE_WITHIN = 5.0
"""Seconds that custom resources may take to go before a later look is better than waiting on."""

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


def prune(workload: Workload, entry: Entry, policy: Policy) -> Entry | None:
    """None once the object is gone. Else its entry: with an error where it has to be tried again, `kept` where it
    stays until somebody decides, unchanged without error where it is none of ours any more.

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
        foreign = entry.uid and live["metadata"]["uid"] != entry.uid
        if foreign or not is_owned(live) or dig(live, KEEP) == "keep":
            return replace(entry, error="")
        if resource.kind == CRD.kind and not policy.prune_crds:
            others = _others(workload, live)
            if others:
                return replace(entry, status=KEPT, error=others)
        workload.client.delete(resource, key, uid=live["metadata"]["uid"])
        if is_custom(entry) or resource.kind == CRD.kind:
            return _gone(workload, resource, key, failed)
    except Conflict:
        return replace(entry, error="")  # replaced between the look and the deletion: not ours
    except Unavailable:
        raise
    except ApiError as error:
        return replace(failed, error=f"not pruned: {error.detail}")
    return None


def _others(workload: Workload, crd: Mapping[str, object]) -> str:
    """What speaks against deleting a CRD: objects of its kind that are not ours would go with it."""
    group, plural, kind = dig(crd, "spec.group", ""), dig(crd, "spec.names.plural", ""), dig(crd, "spec.names.kind", "")
    served = [version["name"] for version in dig(crd, "spec.versions", []) if version.get("served")]
    if not served:
        return ""
    resource = Resource(group, served[0], kind, plural, dig(crd, "spec.scope") == "Namespaced")
    query = {"labelSelector": f"{OWNED_LABEL}!={OWNED}", "limit": "1"}
    page = workload.client.request("GET", resource.path(), query=query, subject=f"{kind} list")
    found: list[Object] = page.get("items") or []
    if not found:
        return ""
    metadata = found[0]["metadata"]
    more = dig(page, "metadata.remainingItemCount", 0)
    example = f"{metadata.get('namespace', '')}/{metadata['name']}".lstrip("/")
    return (
        f"kept: {kind} {example}" + (f" and {more} more objects" if more else "") + " would be deleted with it and "
        f"are not ours; delete them, or annotate the Cluster with {PREFIX}prune-crds: true"
    )


def _gone(workload: Workload, resource: Resource, key: Key, failed: Entry) -> Entry | None:
    deadline = time.monotonic() + _GONE_WITHIN
    pause = 0.02
    while (live := workload.client.find(resource, key)) is not None:
        if time.monotonic() > deadline:
            finalizers = ", ".join(dig(live, "metadata.finalizers", [])) or "none"
            return replace(failed, error=f"not pruned: it is being deleted, its finalizers hold it: {finalizers}")
        time.sleep(pause)
        pause = min(pause * 2, 0.5)
    return None
