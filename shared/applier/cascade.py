"""Finds the objects that block the deletion of a CRD or a Namespace, because they would be deleted with it.

Our objects with the annotation `keep` block the deletion of either. Objects of other owners also block the deletion of
their CRD.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from shared.manifests import Identity

from ..clients import ClusterClients
from ..kube import ApiError, Key, NotFound, NotServed, Object, Resource, Unavailable, dig, key_of
from ..kube.client import METADATA_LIST
from ..kube.crds import CRD, stored_resource
from ..kube.resources import BUILT_IN_GROUPS
from .owner import Owner
from .policy import PREFIX, Policy

CASCADING = (CRD.kind, "Namespace")
"""The kinds whose deletion deletes other objects."""
KEEP = "helm.sh/resource-policy"
_PAGE = 500
_NOT_ALLOWED = 405


def is_marked_keep(live: Mapping[str, Any]) -> bool:
    """Returns whether the object is annotated with Helm's resource policy `keep`, so that no sync deletes it."""
    return bool(dig(live, ("metadata", "annotations", KEEP)) == "keep")


def cascade_blocker(
    cluster: ClusterClients, live: Object, policy: Policy, inventoried: Collection[Identity] = ()
) -> str:
    """Returns why a live CRD or Namespace must not be deleted, and the remedy; empty if it may be deleted.

    Args:
        cluster: The cluster that the object is in.
        live: The live object; the deletion of other kinds is never blocked.
        policy: The owner, and whether CRDs are deleted together with objects of other owners.
        inventoried: The identities of all objects in the inventory; all other objects have other owners.

    Raises:
        ApiError: The API server failed, or the objects cannot be listed.
    """
    if live["kind"] not in CASCADING:
        return ""
    if live["kind"] == CRD.kind:
        return _crd_blocker(cluster, live, policy, inventoried)
    return _namespace_blocker(cluster, live["metadata"]["name"], policy.owner)


def _crd_blocker(cluster: ClusterClients, crd: Object, policy: Policy, inventoried: Collection[Identity]) -> str:
    """Returns why the CRD must not be pruned with the objects of its kind; empty if it may be pruned.

    Our objects with the annotation `keep` block in any case. Objects of other owners block unless the policy allows
    their deletion. The inventory decides which objects are ours, because other owners use the same label.
    """
    resource = stored_resource(crd)
    if resource is None:
        kind = dig(crd, "spec.names.kind")
        return (
            f"the CRD serves no version, so the {kind} objects that would be deleted with it cannot be listed; serve "
            "a version"
        )
    group, kind = resource.group, resource.kind
    ours = {Key(own.namespace, own.name) for own in inventoried if (own.group, own.kind) == (group, kind)}
    limit = _PAGE if policy.prune_crds else min(_PAGE, len(ours) + 1)  # one more than ours finds a foreign one
    for page in cluster.client.pages(resource, limit=limit, accept=METADATA_LIST):
        for obj in page["items"]:
            if policy.owner.has_labels(obj) and is_marked_keep(obj):
                return _marked_message(resource, obj)
        others = [key for key in map(key_of, page["items"]) if key not in ours]
        if others and not policy.prune_crds:
            more = len(others) - 1 + int(dig(page, "metadata.remainingItemCount", 0))
            objects = f"{kind} {others[0]}" + (f" and {more} more objects" if more else "")
            hint = f"delete them, or annotate the {policy.owner.kind} with {PREFIX}prune-crds: true"
            return f"a deletion would also delete {objects}, which other owners have applied; {hint}"
    return ""


def _namespace_blocker(cluster: ClusterClients, namespace: str, owner: Owner) -> str:
    """Returns why the Namespace must not be deleted; empty if it may be."""
    cluster.discovery.invalidate()  # a kind that came after the last discovery may have objects to keep
    served = cluster.discovery.served().values()
    kinds = {(resource.group, resource.kind): resource for resource in served if resource.namespaced}
    for resource in kinds.values():
        for obj in _labelled_objects(cluster, resource, namespace, owner.selector):
            if is_marked_keep(obj):
                return _marked_message(resource, obj)
    return ""


def _labelled_objects(cluster: ClusterClients, resource: Resource, namespace: str, selector: str) -> Iterator[Object]:
    """Yields the objects of a kind with our labels in the namespace."""
    try:
        for page in cluster.client.pages(resource, namespace, selector=selector, accept=METADATA_LIST, limit=_PAGE):
            yield from page["items"]
    except (NotFound, NotServed):
        return  # the kind was deleted after the discovery
    except ApiError as error:
        if isinstance(error, Unavailable) and resource.group in BUILT_IN_GROUPS:
            raise
        if error.status == _NOT_ALLOWED:
            return  # the kind cannot be listed, so its objects are not stored
        # Listing is forbidden, or an aggregated API server does not answer, so there may be objects to keep.
        objects = f"the objects of {resource.group}" if resource.group else f"{resource.kind} objects"
        raise ApiError(f"cannot list {objects} that are annotated to be kept: {error.detail}") from error


def _marked_message(resource: Resource, obj: Object) -> str:
    subject = f"{resource.kind} {key_of(obj)}"
    return (
        f"a deletion would also delete {subject}, which is annotated with {KEEP}: keep; delete this object, or remove "
        "the annotation"
    )
