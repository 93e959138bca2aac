"""What a Cluster's conditions say of the objects that it refers to."""

from __future__ import annotations

from datetime import timedelta

from shared.api import cluster as cluster_api
from shared.api.cluster import TOPOLOGY_RECONCILED
from shared.api.conditions import get_condition
from shared.clients import NOT_ALLOWED, LookupResult
from shared.kube import Object, deleting, dig

from .references import CONTROL_PLANE, INFRASTRUCTURE, Role
from .scope import Scope

TOPOLOGY_WITHIN = timedelta(minutes=1)
"""How long a topology controller may take to look at a new Cluster."""


def mirror(scope: Scope, role: Role, found: LookupResult) -> None:
    """The condition about the object: what it says itself, or why it cannot be heard."""
    gone = deleting(scope.cluster)
    if found.state == "unreferenced":
        _unreferenced(scope, role)
    elif found.state == "failed":
        status = "False" if found.reason == NOT_ALLOWED else "Unknown"
        scope.set(role.condition, status, found.reason or "InternalError", found.error, event_type="Warning")
    elif found.object is None:
        was_there = scope.initialization.get(role.fact) is True
        reason, message = "ObjectDoesNotExist", f"{found.kind} does not exist"
        if was_there:
            still = "" if gone else " while the cluster still exists"
            reason, message = "ObjectDeleted", f"{found.kind} has been deleted{still}"
        # An infrastructure object often comes a moment after its Cluster; all else is worth a look.
        news = not gone and (was_there or role is CONTROL_PLANE)
        scope.set(role.condition, "False", reason, message, event_type="Warning" if news else "")
    else:
        _mirror_condition(scope, role, found.kind, found.object)


def _unreferenced(scope: Scope, role: Role) -> None:
    # A topology controller sets both references at once: with one of them, the other is not to come.
    filled_in = cluster_api.infrastructure_ref(scope.cluster) or cluster_api.control_plane_ref(scope.cluster)
    if dig(scope.cluster, "spec.topology") is not None and not filled_in and not deleting(scope.cluster):
        message, late = "Waiting for cluster topology to be reconciled", _topology_overdue(scope)
        if late:
            message += (
                "; no topology controller has looked at this Cluster yet: is Cluster API core running, with its "
                "feature gate ClusterTopology? Without it, set spec.infrastructureRef and spec.controlPlaneRef yourself"
            )
        event_type = "Warning" if late and role is INFRASTRUCTURE else ""
        scope.set(role.condition, "False", "ObjectDoesNotExist", message, event_type=event_type)
    elif role is INFRASTRUCTURE:
        scope.set(role.condition, "True", "NotUsed", "The Cluster refers to no infrastructure object")
    else:
        scope.remove(role.condition)


def _topology_overdue(scope: Scope) -> bool:
    """Whether nobody fills in the references; else, where that is not known yet, it is looked at again."""
    created = cluster_api.created_at(scope.cluster)
    if created is None or get_condition(scope.conditions, TOPOLOGY_RECONCILED) is not None:
        return False
    left = (created + TOPOLOGY_WITHIN - scope.now).total_seconds()
    if left > 0:
        scope.waits.append(left)
    return left <= 0


def _mirror_condition(scope: Scope, role: Role, kind: str, obj: Object) -> None:
    found = get_condition(dig(obj, "status.conditions", []), role.mirrored)
    if found is not None and found.get("status") not in ("True", "False", "Unknown"):
        message = (
            f"failed to convert status.conditions from {kind} to []metav1.Condition: "
            f"status must be set for the {role.mirrored} condition"
        )
        scope.set(role.condition, "Unknown", "InvalidConditionReported", message)
    elif found is not None:
        reason = found.get("reason") or (role.mirrored if found["status"] == "True" else "NoReasonReported")
        scope.set(role.condition, found["status"], reason, found.get("message") or "")
    elif scope.initialization.get(role.fact):
        scope.set(role.condition, "True", role.mirrored)
    else:
        detail = dig(obj, "status.failureMessage")
        message = f"{kind} {role.field} is false" + (f": {detail}" if detail else "")
        scope.set(role.condition, "False", f"Not{role.mirrored}", message)


def initialized(scope: Scope, found: LookupResult) -> None:
    """`ControlPlaneInitialized`, which stays true once it is; left to others where no control-plane object is used."""
    if found.state == "unreferenced":
        return
    if scope.initialization.get(CONTROL_PLANE.fact):
        scope.set("ControlPlaneInitialized", "True", "Initialized")
    elif found.state == "failed":
        reason = found.reason or "InternalError"
        scope.set("ControlPlaneInitialized", "Unknown", reason, found.error)
    elif found.object is None:
        message = f"{found.kind} does not exist"
        scope.set("ControlPlaneInitialized", "Unknown", "ObjectDoesNotExist", message)
    else:
        scope.set("ControlPlaneInitialized", "False", "NotInitialized", "Control plane not yet initialized")
