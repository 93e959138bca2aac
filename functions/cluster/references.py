"""Reconciles the objects that a Cluster refers to: adopts them and copies facts from their status.

A fact such as `infrastructureProvisioned` stays true once it is true, and the endpoint stays once it is set. Failure
domains follow the infrastructure object.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.api import cluster as cluster_api
from shared.api.cluster import CLUSTER_NAME_LABEL, ClusterCondition
from shared.api.contract import CONTRACTS, LABEL
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.effects import Patch
from shared.kube import Object, deleting, dig, key_of, owner_reference, owners, with_owner
from shared.kube.resources import split_api_version
from shared.references import NOT_ALLOWED, LookupResult

from .status import ClusterStatusBuilder

GROUPS = ("infrastructure.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io")
"""The API groups of most infrastructure and control plane providers."""
ENDINGS = ("Cluster", "ControlPlane")
"""The endings of the kinds that Cluster API's contracts of InfraCluster and control plane require."""

REFERENCE_RETRY = 30.0
"""Seconds until a missing or unreadable referenced object is read again, or an unready object of a kind whose changes
start no function."""


@dataclass(frozen=True)
class Role:
    """The role of a referenced object (Cluster API book, contracts of InfraCluster and control plane)."""

    fact: str
    """The field of the Cluster's `status.initialization`; once true, always true."""
    participle: str
    """The fact in messages, such as "provisioned"."""
    field: str
    """The field in which the object reports the fact, in the v1beta2 contract."""
    condition: ClusterCondition
    """The type of the Cluster's condition, which mirrors a condition of the object."""
    object_condition: str
    """The type of that condition of the object."""


INFRASTRUCTURE = Role(
    "infrastructureProvisioned", "provisioned", "status.initialization.provisioned", "InfrastructureReady", "Ready"
)
CONTROL_PLANE = Role(
    "controlPlaneInitialized",
    "initialized",
    "status.initialization.controlPlaneInitialized",
    "ControlPlaneAvailable",
    "Available",
)


def check_contract(found: LookupResult) -> LookupResult:
    """Returns `found`, or a failed lookup if the kind does not follow one of the two contracts.

    The function labels, adopts and finally deletes the objects that a Cluster refers to. The right to write a Cluster
    must not extend to objects of other kinds.
    """
    resource = found.resource
    if resource is None or (resource.kind.endswith(ENDINGS) and (resource.group in GROUPS or found.contract)):
        return found
    problem = (
        f"a reference to a {resource.kind} of {resource.group} is not allowed: the name of the kind must end with "
        f"{' or '.join(ENDINGS)}, and its CRD must have the label of a contract, such as {LABEL}{CONTRACTS[0]}"
    )
    return LookupResult("failed", found.kind, resource=resource, error=problem, reason=NOT_ALLOWED)


def check_reference(cluster: Object, found: LookupResult) -> LookupResult:
    """Returns `found`, or a failed lookup if this Cluster must not adopt the object."""
    obj = found.object
    if obj is None:
        return found
    what = f"{found.kind} {key_of(obj).name}"
    group, _ = split_api_version(obj["apiVersion"])
    owning = [owner.get("name") for owner in owners(obj, CLUSTER.kind, CLUSTER.group)]
    others = [name for name in owning if name != key_of(cluster).name]
    if group in (CLUSTER.group, CLUSTER_ADDON.group):
        problem = f"a reference to {what} is not allowed, because its kind does not belong to a provider"
    elif others:
        problem = f"{what} belongs to Cluster {others[0]}; refer to an object that no other Cluster owns"
    else:
        return found
    return LookupResult("failed", found.kind, resource=found.resource, error=problem, reason=NOT_ALLOWED)


def failure(found: LookupResult) -> tuple[str, str]:
    """Returns reason and message of the terminal failure that a referenced object reports; empty if it reports none."""
    obj = found.object or {}
    reason, message = cluster_api.failure(obj)
    if not message:
        return reason, ""
    group, version = split_api_version(obj["apiVersion"])
    kind = f"{group}/{version}, Kind={obj['kind']}"
    return reason, f'Failure detected from referenced resource {kind} with name "{key_of(obj).name}": {message}'


def reconcile_reference(builder: ClusterStatusBuilder, role: Role, found: LookupResult, *, watched: bool) -> None:
    """Adopts the object and copies the facts of its status; `watched`: changes of its kind start the function."""
    if found.state == "unreferenced":
        # With a topology, the reference is set later; without a topology, the Cluster needs no infrastructure.
        if role is INFRASTRUCTURE and not deleting(builder.cluster) and dig(builder.cluster, "spec.topology") is None:
            builder.initialization[role.fact] = True
        return
    if found.state == "failed":
        builder.errors.append(found.error)
        builder.waits.append(REFERENCE_RETRY)
        return
    if found.object is None:
        if not deleting(builder.cluster):
            if builder.initialization.get(role.fact):
                builder.errors.append(f"{found.kind} has been deleted after being {role.participle}")
            builder.waits.append(REFERENCE_RETRY)
        return
    if not deleting(builder.cluster):
        adopt(builder, found)
    if not deleting(found.object):
        _copy_facts(builder, role, found.object, found.contract, watched=watched)


def _copy_facts(builder: ClusterStatusBuilder, role: Role, obj: Object, contract: str, *, watched: bool) -> None:
    was_true = builder.initialization.get(role.fact) is True
    reports_fact = cluster_api.provisioned if role is INFRASTRUCTURE else cluster_api.control_plane_initialized
    if not reports_fact(obj, contract) and not was_true:
        if not watched:
            builder.waits.append(REFERENCE_RETRY)
        return
    _copy_endpoint(builder, obj)
    if role is INFRASTRUCTURE:
        try:
            builder.failure_domains = cluster_api.failure_domains(obj, contract)
        except ValueError as error:
            builder.errors.append(f"{obj['kind']} {obj['metadata']['name']}: {error}")
    if not was_true:
        builder.initialization[role.fact] = True
        fact = role.fact[0].upper() + role.fact[1:]
        reason = "InfrastructureReady" if role is INFRASTRUCTURE else fact
        builder.add_event(reason, f"Cluster {key_of(builder.cluster).name} {fact} is now True")


def adopt(builder: ClusterStatusBuilder, found: LookupResult) -> None:
    """Sets owner reference and label in one patch, unless the object has them."""
    if found.object is None or found.resource is None:
        return
    name = key_of(builder.cluster).name
    wanted = owner_reference(builder.cluster, controller=dig(builder.cluster, "spec.topology") is not None)
    patch: Object = {}
    if (references := with_owner(found.object, wanted)) is not None:
        patch["ownerReferences"] = references
    if dig(found.object, ("metadata", "labels", CLUSTER_NAME_LABEL)) != name:
        patch["labels"] = {CLUSTER_NAME_LABEL: name}
    if patch:
        builder.effects.append(Patch(found.resource, found.object, {"metadata": patch}))


def _copy_endpoint(builder: ClusterStatusBuilder, source: Object) -> None:
    offered = cluster_api.endpoint(source) or cluster_api.api_endpoint(source)
    if builder.endpoint is None and offered is not None:
        builder.endpoint = offered
        host, port = offered
        spec = {"controlPlaneEndpoint": {"host": host, "port": port}}
        builder.effects.append(Patch(CLUSTER, builder.cluster, {"spec": spec}))
