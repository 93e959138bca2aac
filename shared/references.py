"""Reads the objects that Cluster API objects refer to, in the version of their provider's contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from .api.contract import contract_version, provider_kind
from .clients import Clients
from .kube import ApiError, Key, NotServed, Object, Resource, dig
from .kube.crds import find_definition
from .kube.resources import BUILT_IN_GROUPS, conventional_plural, group_of

NOT_SERVED = "KindNotServed"
NOT_ALLOWED = "ReferenceNotAllowed"

_CONTRACT_SECONDS = 300.0
"""Seconds for which the contract of a kind is cached."""


@dataclass(frozen=True)
class LookupResult:
    """The result of a lookup of a referenced object; a decision differs for each `state`.

    Attributes:
        state: `present`: the object was read. `absent`: it does not exist. `failed`: it could not be read, so it is
            unknown whether it exists. `unreferenced`: there is no reference, or it is incomplete.
        kind: The kind of the reference.
        object: The object, if present.
        resource: The resource of the kind, if the kind is served and was requested.
        error: Why the lookup failed.
        contract: The contract of Cluster API that the object follows, if it was requested and the CRD has one.
        reason: The reason for a condition if the lookup failed and a retry alone cannot help.
    """

    state: Literal["present", "absent", "failed", "unreferenced"]
    kind: str = ""
    object: Object | None = None
    resource: Resource | None = None
    error: str = ""
    reason: str = ""
    contract: str = ""


def get_reference(
    clients: Clients,
    reference: Mapping[str, Any] | None,
    namespace: str,
    *,
    undefined_is_absent: bool = False,
    by_contract: bool = False,
) -> LookupResult:
    """Reads the object that a reference in a Cluster API object points to. Never raises. Failures are results.

    Only a 404 for the object means that it is absent. An unserved kind is a failure. References to cluster-scoped
    objects and to built-in kinds fail as well, because objects of providers are namespaced and of the provider's own
    kinds.

    Args:
        clients: The clients of the management cluster.
        reference: With apiGroup (v1beta2) or apiVersion (v1beta1), kind and name; None or incomplete if not set.
        namespace: Where the object is.
        undefined_is_absent: Returns `absent` instead of `failed` if no CRD defines the kind, for callers that wait
            for the deletion of the object.
        by_contract: Reads the object in the version that follows the newest contract of its provider, by the labels
            of its CRD. By default it is read in the API server's preferred version.
    """
    if not reference or not reference.get("kind") or not reference.get("name"):
        return LookupResult("unreferenced")
    kind, name = reference["kind"], reference["name"]
    group = group_of(reference)
    if group in BUILT_IN_GROUPS:
        kind_of_group = f"{kind} of {group or 'the core group'}"
        return _not_allowed(
            kind, f"a reference to a {kind_of_group} is not allowed, because the kind is built into Kubernetes"
        )
    try:
        resource = clients.discovery.preferred(group, kind)
        if resource is not None and not resource.namespaced:
            return _not_allowed(kind, f"a reference to a {kind} is not allowed, because the kind is cluster-scoped")
        if resource is not None and by_contract:
            resource, contract = _by_contract(clients, resource)
            return replace(_get(clients, resource, Key(namespace, name)), contract=contract)
        if resource is not None:
            return _get(clients, resource, Key(namespace, name))
        defined = Resource(group, "", kind, conventional_plural(kind))
        if undefined_is_absent and find_definition(clients.management, defined) is None:
            return LookupResult("absent", kind=kind)
    except ApiError as error:
        return LookupResult("failed", kind=kind, error=str(error))
    problem = f"{kind}.{group} is not served: is its CRD installed?"
    return LookupResult("failed", kind=kind, error=problem, reason=NOT_SERVED)


def _not_allowed(kind: str, refusal: str) -> LookupResult:
    return LookupResult("failed", kind=kind, error=refusal, reason=NOT_ALLOWED)


def _by_contract(clients: Clients, resource: Resource) -> tuple[Resource, str]:
    """Returns the kind in the version of its contract, and the contract; without a contract the kind as it is.

    Both are cached together for a while, so that most lookups read no CRD.
    """

    def read() -> tuple[Resource, str]:
        crd = find_definition(clients.management, resource) or {}
        labelled = contract_version(dig(crd, "metadata.labels", {}))
        return provider_kind(crd) or resource, labelled[0] if labelled else ""

    return clients.remembered.get(_contract_key(resource), _CONTRACT_SECONDS, read)


def _contract_key(resource: Resource) -> tuple[str, str, str]:
    return "contract", resource.group, resource.kind


def _get(clients: Clients, resource: Resource, key: Key) -> LookupResult:
    try:
        found = clients.management.find(resource, key)
    except NotServed:
        # The cache is stale, because this version is no longer served.
        clients.discovery.invalidate()
        clients.remembered.forget(_contract_key(resource))
        raise
    if found is None:
        return LookupResult("absent", kind=resource.kind, resource=resource)
    return LookupResult("present", kind=resource.kind, object=found, resource=resource)
