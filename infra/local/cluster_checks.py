"""What a management cluster lacks for the functions: definitions and rights. Whether Cluster API core runs there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shared.api.provider import PROVIDER_LABEL
from shared.api.resources import DEPLOYMENT
from shared.kube import ApiError, Client, Object, Resource, dig, key_of
from shared.kube.crds import find_definition
from shared.triggers import Triggers, Watch

from . import crds

_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
CORE = "cluster-api"
"""The value of the provider label on the objects of Cluster API core."""


def missing_crds(client: Client, declared: Mapping[str, Triggers]) -> list[Object]:
    """Returns the CRDs of this project for watched kinds that the cluster does not define. Raises `ApiError`."""
    own = {(dig(crd, "spec.group"), dig(crd, "spec.names.kind")): crd for crd in crds.load()}
    watched = [own[watch.resource.group, watch.resource.kind] for watch in _kinds(declared) if _is_ours(watch, own)]
    return [crd for crd in watched if find_definition(client, _resource(crd)) is None]


def unwatchable(client: Client, declared: Mapping[str, Triggers], namespace: str = "") -> dict[str, list[str]]:
    """Returns the kinds that may not be listed and watched, each with the functions that get no events of it.

    Raises `ApiError` if the cluster does not answer the question.
    """
    found: dict[str, list[str]] = {}
    for watch in _kinds(declared):
        resource = watch.resource
        if not all(_may(client, verb, resource, namespace) for verb in ("list", "watch")):
            found[f"{resource.plural}.{resource.group}".rstrip(".")] = [
                name for name, triggers in declared.items() if any(one.resource == resource for one in triggers.watches)
            ]
    return found


def live_core(client: Client) -> str:
    """Returns the Deployment of a Cluster API core that runs; empty if none does, or if Deployments may not be read."""
    try:
        for deployment in client.list(DEPLOYMENT, selector=f"{PROVIDER_LABEL}={CORE}"):
            if dig(deployment, "status.availableReplicas", 0) > 0:
                return str(key_of(deployment))
    except ApiError:
        return ""
    return ""


def _kinds(declared: Mapping[str, Triggers]) -> Iterable[Watch]:
    """Returns one watch of each kind."""
    return {watch.resource: watch for triggers in declared.values() for watch in triggers.watches}.values()


def _is_ours(watch: Watch, own: Mapping[tuple[str, str], Object]) -> bool:
    return (watch.resource.group, watch.resource.kind) in own


def _resource(crd: Object) -> Resource:
    return Resource(dig(crd, "spec.group"), "", dig(crd, "spec.names.kind"), dig(crd, "spec.names.plural"))


def _may(client: Client, verb: str, resource: Resource, namespace: str) -> bool:
    attributes = {"verb": verb, "group": resource.group, "resource": resource.plural, "namespace": namespace}
    body: Object = {
        "apiVersion": _REVIEWS.api_version,
        "kind": _REVIEWS.kind,
        "spec": {"resourceAttributes": attributes},
    }
    review = client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=body)
    return dig(review, "status.allowed") is True
