"""Checks a management cluster before functions run for it: missing CRDs and rights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shared.kube import Client, Object, Resource, dig, key_of
from shared.kube.crds import CRD
from shared.triggers import Triggers

from . import crds

_ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)


def missing_crds(client: Client, declared: Mapping[str, Triggers]) -> list[Object]:
    """Returns this project's CRDs that the cluster lacks, for the kinds that functions watch. Raises `ApiError`."""
    watched = {(resource.group, resource.kind) for resource in _kinds(declared)}
    ours = [crd for crd in crds.load() if (dig(crd, "spec.group"), dig(crd, "spec.names.kind")) in watched]
    return [crd for crd in ours if client.find(CRD, key_of(crd)) is None]


def unwatchable(client: Client, declared: Mapping[str, Triggers], namespace: str = "") -> dict[str, list[str]]:
    """Returns the kinds that the user may not list and watch, each with the functions that receive no events for it.

    Raises `ApiError` if the access review fails.
    """
    return {
        _name(resource): [
            name for name, triggers in declared.items() if any(other.resource == resource for other in triggers.watches)
        ]
        for resource in _kinds(declared)
        if not _may_watch(client, resource, namespace)
    }


def watchable(client: Client, declared: Mapping[str, Triggers]) -> dict[str, Triggers]:
    """Returns the functions with only the kinds that the user may list and watch, without functions that have none.

    Raises `ApiError` if the access review fails.
    """
    allowed = {resource for resource in _kinds(declared) if _may_watch(client, resource)}
    sees_definitions = _may_watch(client, CRD)
    reduced = {
        name: replace(
            triggers,
            watches=tuple(watch for watch in triggers.watches if watch.resource in allowed),
            defined_kinds=triggers.defined_kinds if sees_definitions else None,
        )
        for name, triggers in declared.items()
    }
    return {name: triggers for name, triggers in reduced.items() if triggers.watches}


def not_in(reduced: Mapping[str, Triggers], declared: Mapping[str, Triggers]) -> list[str]:
    """Returns the kinds that `watchable` has left out."""
    return [_name(resource) for resource in _kinds(declared) if resource not in _kinds(reduced)]


def _kinds(declared: Mapping[str, Triggers]) -> list[Resource]:
    return [*dict.fromkeys(watch.resource for triggers in declared.values() for watch in triggers.watches)]


def _name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}".rstrip(".")


def _may_watch(client: Client, resource: Resource, namespace: str = "") -> bool:
    return all(is_allowed(client, verb, resource, namespace) for verb in ("list", "watch"))


def is_allowed(client: Client, verb: str, resource: Resource, namespace: str, name: str = "") -> bool:
    """Returns whether the user of the client has a right in a namespace, for one object by name or for all.

    Raises `ApiError`.
    """
    attributes = {"verb": verb, "group": resource.group, "resource": resource.plural, "namespace": namespace}
    attributes |= {"name": name} if name else {}
    body: Object = {
        "apiVersion": _ACCESS_REVIEW.api_version,
        "kind": _ACCESS_REVIEW.kind,
        "spec": {"resourceAttributes": attributes},
    }
    review = client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=body)
    return dig(review, "status.allowed") is True
