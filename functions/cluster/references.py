"""The objects that a Cluster refers to: it owns them, and takes over what they have found out.

Facts such as `infrastructureProvisioned` and a valid endpoint never flip back, failure domains are always mirrored.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from shared.api import cluster as cluster_api
from shared.api.cluster import CLUSTER_NAME_LABEL, TOPOLOGY_RECONCILED
from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.clients import NOT_ALLOWED, Found
from shared.effects import Patch
from shared.kube import Object, deleting, dig, key_of, owner_reference, owners, with_owner
from shared.kube.resources import split_api_version
from shared.runtime import Notice

from .plan import Plan

REFERENCE_RETRY = 30.0
"""Seconds until a missing referenced object is looked for again."""
TOPOLOGY_WITHIN = timedelta(minutes=1)
"""How long a topology controller may take to look at a new Cluster."""


@dataclass(frozen=True)
class Role:
    """What a referenced object is to a Cluster (Cluster API book, contracts of InfraCluster and of control plane)."""

    fact: str
    """Of `status.initialization` of the Cluster; once true, always true."""
    done: str
    """How an object is called of which the fact holds."""
    field: str
    """Where an object of the newer contract says so."""
    condition: str
    """Of the Cluster; it mirrors the object's condition `mirrored`."""
    mirrored: str


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


def allowed(cluster: Object, found: Found) -> Found:
    """What was found, or a refusal where the object can never be this Cluster's: nothing is done to such an object."""
    obj = found.object
    if obj is None:
        return found
    what = f"{found.kind} {key_of(obj).name}"
    group, _ = split_api_version(obj["apiVersion"])
    others = [o["name"] for o in owners(obj, CLUSTER.kind, CLUSTER.group) if o.get("name") != key_of(cluster).name]
    if group in (CLUSTER.group, CLUSTER_ADDON.group):
        problem = f"a reference to {what} is not allowed: it is no provider's kind"
    elif others:
        problem = f"{what} belongs to Cluster {others[0]}; refer to an object of this Cluster's own"
    else:
        return found
    return Found("failed", found.kind, resource=found.resource, error=problem, reason=NOT_ALLOWED)


def reconcile(plan: Plan, role: Role, found: Found) -> None:
    """Takes the object over, and what it has found out."""
    if found.state == "unreferenced":
        # With a topology the reference is still to come; without one there is nothing to wait for.
        if role is INFRASTRUCTURE and not deleting(plan.cluster) and dig(plan.cluster, "spec.topology") is None:
            plan.initialization[role.fact] = True
        return
    if found.state == "failed":
        plan.errors.append(found.error)
        plan.waits.append(REFERENCE_RETRY)
        return
    if found.object is None:
        if not deleting(plan.cluster):
            if plan.initialization.get(role.fact):
                plan.errors.append(f"{found.kind} has been deleted after being {role.done}")
            plan.waits.append(REFERENCE_RETRY)
        return
    if not deleting(plan.cluster):
        adopt(plan, found)
    if not deleting(found.object):
        _take_over(plan, role, found.object)


def _take_over(plan: Plan, role: Role, obj: Object) -> None:
    before = plan.initialization.get(role.fact) is True
    holds = cluster_api.provisioned if role is INFRASTRUCTURE else cluster_api.control_plane_initialized
    if not holds(obj) and not before:
        plan.waits.append(REFERENCE_RETRY)
        return
    _copy_endpoint(plan, obj)
    if role is INFRASTRUCTURE:
        try:
            plan.failure_domains = cluster_api.failure_domains(obj)
        except ValueError as error:
            plan.errors.append(f"{obj['kind']} {obj['metadata']['name']}: {error}")
    if not before:
        plan.initialization[role.fact] = True
        fact = role.fact[0].upper() + role.fact[1:]
        reason = "InfrastructureReady" if role is INFRASTRUCTURE else fact
        plan.notices.append(Notice(reason, f"Cluster {key_of(plan.cluster).name} {fact} is now True"))


def adopt(plan: Plan, found: Found) -> None:
    """Owner reference and label, in one patch, only where they differ."""
    if found.object is None or found.resource is None:
        return
    name = key_of(plan.cluster).name
    wanted = owner_reference(plan.cluster, controller=dig(plan.cluster, "spec.topology") is not None)
    patch: Object = {}
    if (references := with_owner(found.object, wanted)) is not None:
        patch["ownerReferences"] = references
    if dig(found.object, ("metadata", "labels", CLUSTER_NAME_LABEL)) != name:
        patch["labels"] = {CLUSTER_NAME_LABEL: name}
    if patch:
        plan.effects.append(Patch(found.resource, found.object, {"metadata": patch}))


def _copy_endpoint(plan: Plan, source: Object) -> None:
    offered = cluster_api.endpoint(source)
    if plan.endpoint is None and offered is not None:
        plan.endpoint = offered
        host, port = offered
        spec = {"controlPlaneEndpoint": {"host": host, "port": port}}
        plan.effects.append(Patch(CLUSTER, plan.cluster, {"spec": spec}))


# -- what is said of them ----------------------------------------------------------------------------------------


def mirror(plan: Plan, role: Role, found: Found) -> None:
    """The condition about the object: what it says itself, or why it cannot be heard."""
    gone = deleting(plan.cluster)
    if found.state == "unreferenced":
        _unreferenced(plan, role)
    elif found.state == "failed":
        status = "False" if found.reason == NOT_ALLOWED else "Unknown"
        plan.condition(role.condition, status, found.reason or "InternalError", found.error, tell="Warning")
    elif found.object is None:
        was_there = plan.initialization.get(role.fact) is True
        reason, message = "ObjectDoesNotExist", f"{found.kind} does not exist"
        if was_there:
            still = "" if gone else " while the cluster still exists"
            reason, message = "ObjectDeleted", f"{found.kind} has been deleted{still}"
        # An infrastructure object often comes a moment after its Cluster; all else is worth a look.
        news = not gone and (was_there or role is CONTROL_PLANE)
        plan.condition(role.condition, "False", reason, message, tell="Warning" if news else "")
    else:
        _mirror_condition(plan, role, found.kind, found.object)


def _unreferenced(plan: Plan, role: Role) -> None:
    # A topology controller sets both references at once: with one of them, the other is not to come.
    filled_in = cluster_api.infrastructure_ref(plan.cluster) or cluster_api.control_plane_ref(plan.cluster)
    if dig(plan.cluster, "spec.topology") is not None and not filled_in and not deleting(plan.cluster):
        message, late = "Waiting for cluster topology to be reconciled", _topology_overdue(plan)
        if late:
            message += (
                "; no topology controller has looked at this Cluster yet: is Cluster API core running, with its "
                "feature gate ClusterTopology? Without it, set spec.infrastructureRef and spec.controlPlaneRef yourself"
            )
        tell = "Warning" if late and role is INFRASTRUCTURE else ""
        plan.condition(role.condition, "False", "ObjectDoesNotExist", message, tell=tell)
    elif role is INFRASTRUCTURE:
        plan.condition(role.condition, "True", "NotUsed", "The Cluster refers to no infrastructure object")
    else:
        plan.drop(role.condition)


def _topology_overdue(plan: Plan) -> bool:
    """Whether nobody fills in the references; else, where that is not known yet, it is looked at again."""
    created = cluster_api.created_at(plan.cluster)
    if created is None or get_condition(plan.conditions, TOPOLOGY_RECONCILED) is not None:
        return False
    left = (created + TOPOLOGY_WITHIN - plan.now).total_seconds()
    if left > 0:
        plan.waits.append(left)
    return left <= 0


def _mirror_condition(plan: Plan, role: Role, kind: str, obj: Object) -> None:
    found = get_condition(dig(obj, "status.conditions", []), role.mirrored)
    if found is not None and found.get("status") not in ("True", "False", "Unknown"):
        message = (
            f"failed to convert status.conditions from {kind} to []metav1.Condition: "
            f"status must be set for the {role.mirrored} condition"
        )
        plan.condition(role.condition, "Unknown", "InvalidConditionReported", message)
    elif found is not None:
        reason = found.get("reason") or (role.mirrored if found["status"] == "True" else "NoReasonReported")
        plan.condition(role.condition, found["status"], reason, found.get("message") or "")
    elif plan.initialization.get(role.fact):
        plan.condition(role.condition, "True", role.mirrored)
    else:
        detail = dig(obj, "status.failureMessage")
        message = f"{kind} {role.field} is false" + (f": {detail}" if detail else "")
        plan.condition(role.condition, "False", f"Not{role.mirrored}", message)


def initialized(plan: Plan, found: Found) -> None:
    """`ControlPlaneInitialized`, which stays true once it is; left to others where no control-plane object is used."""
    if found.state == "unreferenced":
        return
    if plan.initialization.get(CONTROL_PLANE.fact):
        plan.condition("ControlPlaneInitialized", "True", "Initialized")
    elif found.state == "failed":
        reason = found.reason or "InternalError"
        plan.condition("ControlPlaneInitialized", "Unknown", reason, found.error)
    elif found.object is None:
        message = f"{found.kind} does not exist"
        plan.condition("ControlPlaneInitialized", "Unknown", "ObjectDoesNotExist", message)
    else:
        plan.condition("ControlPlaneInitialized", "False", "NotInitialized", "Control plane not yet initialized")
