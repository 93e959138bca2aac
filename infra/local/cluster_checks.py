"""Checks a management cluster before functions run for it: missing CRDs and rights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shared.kube import Client, Object, Resource, dig
from shared.kube.crds import find_definition
from shared.triggers import Triggers, Watch

from . import crds

_ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)


def missing_crds(client: Client, declared: Mapping[str, Triggers]) -> list[Object]:
    """Returns this project's CRDs that the cluster lacks, for the kinds that functions watch. Raises `ApiError`."""
    own = {(dig(crd, "spec.group"), dig(crd, "spec.names.kind")): crd for crd in crds.load()}
    watched = [
        own[watch.resource.group, watch.resource.kind]
        for watch in _one_watch_per_kind(declared)
        if _is_ours(watch, own)
    ]
    return [crd for crd in watched if find_definition(client, _resource(crd)) is None]


def unwatchable(client: Client, declared: Mapping[str, Triggers], namespace: str = "") -> dict[str, list[str]]:
    """Returns the kinds that the user may not list and watch, each with the functions that receive no events for it.

    Raises `ApiError` if the access review fails.
    """
    denied: dict[str, list[str]] = {}
    for watch in _one_watch_per_kind(declared):
        resource = watch.resource
        if not all(_is_allowed(client, verb, resource, namespace) for verb in ("list", "watch")):
            denied[f"{resource.plural}.{resource.group}".rstrip(".")] = [
                name
                for name, triggers in declared.items()
                if any(other.resource == resource for other in triggers.watches)
            ]
    return denied


def _one_watch_per_kind(declared: Mapping[str, Triggers]) -> Iterable[Watch]:
    return {watch.resource: watch for triggers in declared.values() for watch in triggers.watches}.values()


def _is_ours(watch: Watch, own: Mapping[tuple[str, str], Object]) -> bool:
    return (watch.resource.group, watch.resource.kind) in own


def _resource(crd: Object) -> Resource:
    return Resource(dig(crd, "spec.group"), "", dig(crd, "spec.names.kind"), dig(crd, "spec.names.plural"))


def _is_allowed(client: Client, verb: str, resource: Resource, namespace: str) -> bool:
    attributes = {"verb": verb, "group": resource.group, "resource": resource.plural, "namespace": namespace}
    body: Object = {
        "apiVersion": _ACCESS_REVIEW.api_version,
        "kind": _ACCESS_REVIEW.kind,
        "spec": {"resourceAttributes": attributes},
    }
    review = client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=body)
    return dig(review, "status.allowed") is True
