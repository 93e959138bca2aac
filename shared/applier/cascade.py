"""What would be deleted with a CRD or a Namespace, and therefore holds it: objects that are marked to be kept, and of a
CRD's kind those of other people.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from shared.manifests import Identity

from ..clients import ClusterClients
from ..kube import ApiError, Key, Object, Resource, Unavailable, dig, key_of
from ..kube.client import METADATA_LIST
from ..kube.crds import CRD, stored_resource
from ..kube.resources import BUILT_IN_GROUPS
from .inventory import OWNED, OWNED_LABEL, is_owned
from .policy import PREFIX, Policy

KEEP = "helm.sh/resource-policy"
_PAGE = 500


def is_marked_keep(live: Mapping[str, Any]) -> bool:
    """Whether its author wants the object to stay, whatever becomes of the release."""
    return bool(dig(live, ("metadata", "annotations", KEEP)) == "keep")


def cascade_blocker(
    cluster: ClusterClients, live: Object, policy: Policy, inventoried: Collection[Identity] = ()
) -> str:
    """What holds a CRD or Namespace, with the way out; empty for what may go. `known` is the whole inventory.

    Raises `ApiError`.
    """
    if live["kind"] == CRD.kind:
        return _crd_blocker(cluster, live, policy, inventoried)
    if live["kind"] == "Namespace":
        return _namespace_blocker(cluster, live["metadata"]["name"])
    return ""


def _crd_blocker(cluster: ClusterClients, crd: Object, policy: Policy, inventoried: Collection[Identity]) -> str:
    """Consent to the end of other people's objects is none to that of ours that are marked to be kept.

    The label does not tell whose objects are: cluster stacks put it on theirs, too.
    """
    resource = stored_resource(crd)
    if resource is None:
        kind = dig(crd, "spec.names.kind")
        return f"the CRD serves no version, so nobody can tell which {kind} objects would go with it; serve one"
    group, kind = resource.group, resource.kind
    ours = {Key(who.namespace, who.name) for who in inventoried if (who.group, who.kind) == (group, kind)}
    limit = _PAGE if policy.prune_crds else min(_PAGE, len(ours) + 1)  # more than ours: one of them is another's
    for page in cluster.client.pages(resource, limit=limit, accept=METADATA_LIST):
        for obj in page["items"]:
            if is_owned(obj) and is_marked_keep(obj):
                return _marked_message(resource, obj)
        others = [key for key in map(key_of, page["items"]) if key not in ours]
        if others and not policy.prune_crds:
            more = len(others) - 1 + int(dig(page, "metadata.remainingItemCount", 0))
            some = f"{kind} {others[0]}" + (f" and {more} more objects" if more else "")
            hint = f"delete them, or annotate the {policy.owner.kind} with {PREFIX}prune-crds: true"
            return f"{some} would be deleted with it and are not ours; {hint}"
    return ""


def _namespace_blocker(cluster: ClusterClients, namespace: str) -> str:
    cluster.discovery.invalidate()  # a kind that came since may have objects that are to be kept
    served = cluster.discovery.served().values()
    kinds = {(resource.group, resource.kind): resource for resource in served if resource.namespaced}
    for resource in kinds.values():
        for obj in _labelled_objects(cluster, resource, namespace):
            if is_marked_keep(obj):
                return _marked_message(resource, obj)
    return ""


def _labelled_objects(cluster: ClusterClients, resource: Resource, namespace: str) -> Iterator[Object]:
    selector = f"{OWNED_LABEL}={OWNED}"
    try:
        for page in cluster.client.pages(resource, namespace, selector=selector, accept=METADATA_LIST, limit=_PAGE):
            yield from page["items"]
    except Unavailable as error:
        if resource.group in BUILT_IN_GROUPS:
            raise
        # One aggregated API server may be away; that is no failure of the cluster's own.
        raise ApiError(f"{resource.group} does not tell what has to be kept in it: {error.detail}") from error
    except ApiError:
        return  # not a kind that can be listed, or not by us: nothing of it was applied from here


def _marked_message(resource: Resource, obj: Object) -> str:
    who = f"{resource.kind} {key_of(obj)}"
    return f"{who} would be deleted with it and is annotated with {KEEP}: keep; delete it, or take the annotation off"
