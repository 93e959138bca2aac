"""What a Cluster's conditions say of the objects that it refers to."""

from __future__ import annotations

from datetime import timedelta

from shared.api import cluster as cluster_api
from shared.api.cluster import TOPOLOGY_RECONCILED
from shared.api.conditions import get_condition
from shared.clients import NOT_ALLOWED, Found
from shared.kube import Object, deleting, dig

from .plan import Plan
from .references import CONTROL_PLANE, INFRASTRUCTURE, Role

TOPOLOGY_WITHIN = timedelta(minutes=1)
"""How long a topology controller may take to look at a new Cluster."""


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
