"""Sets the conditions of a Cluster that mirror the objects it refers to."""

from __future__ import annotations

from datetime import timedelta

from shared.api import cluster as cluster_api
from shared.api.cluster import TOPOLOGY_RECONCILED
from shared.api.conditions import get_condition
from shared.clients import NOT_ALLOWED, LookupResult
from shared.kube import Object, deleting, dig

from .references import CONTROL_PLANE, INFRASTRUCTURE, Role
from .scope import Scope

TOPOLOGY_TIMEOUT = timedelta(minutes=1)
"""The time that a topology controller has for its first reconciliation of a new Cluster."""


def mirror_condition(scope: Scope, role: Role, found: LookupResult) -> None:
    """Sets the Cluster's condition for a referenced object: the object's own, or why the object cannot be read."""
    being_deleted = deleting(scope.cluster)
    if found.state == "unreferenced":
        _set_unreferenced(scope, role)
    elif found.state == "failed":
        status = "False" if found.reason == NOT_ALLOWED else "Unknown"
        scope.set(role.condition, status, found.reason or "InternalError", found.error, event_type="Warning")
    elif found.object is None:
        existed = scope.initialization.get(role.fact) is True
        reason, message = "ObjectDoesNotExist", f"{found.kind} does not exist"
        if existed:
            still = "" if being_deleted else " while the cluster still exists"
            reason, message = "ObjectDeleted", f"{found.kind} has been deleted{still}"
        # An infrastructure object is often created a moment after its Cluster: no warning is recorded for that.
        is_unexpected = not being_deleted and (existed or role is CONTROL_PLANE)
        scope.set(role.condition, "False", reason, message, event_type="Warning" if is_unexpected else "")
    else:
        _mirror_object_condition(scope, role, found.kind, found.object)


def _set_unreferenced(scope: Scope, role: Role) -> None:
    # A topology controller sets both references at once: if one of them is set, the other will not follow.
    filled_in = cluster_api.infrastructure_ref(scope.cluster) or cluster_api.control_plane_ref(scope.cluster)
    if dig(scope.cluster, "spec.topology") is not None and not filled_in and not deleting(scope.cluster):
        message, late = "Waiting for cluster topology to be reconciled", _topology_overdue(scope)
        if late:
            message += (
                "; no topology controller has reconciled this Cluster yet: is Cluster API core running, with its "
                "feature gate ClusterTopology? Without it, set spec.infrastructureRef and spec.controlPlaneRef yourself"
            )
        event_type = "Warning" if late and role is INFRASTRUCTURE else ""
        scope.set(role.condition, "False", "ObjectDoesNotExist", message, event_type=event_type)
    elif role is INFRASTRUCTURE:
        scope.set(role.condition, "True", "NotUsed", "The Cluster refers to no infrastructure object")
    else:
        scope.remove(role.condition)


def _topology_overdue(scope: Scope) -> bool:
    """Returns whether the topology controller missed its time; before that, requeues the Cluster for that moment."""
    created = cluster_api.created_at(scope.cluster)
    if created is None or get_condition(scope.conditions, TOPOLOGY_RECONCILED) is not None:
        return False
    left = (created + TOPOLOGY_TIMEOUT - scope.now).total_seconds()
    if left > 0:
        scope.waits.append(left)
    return left <= 0


def _mirror_object_condition(scope: Scope, role: Role, kind: str, obj: Object) -> None:
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


def set_control_plane_initialized(scope: Scope, found: LookupResult) -> None:
    """Sets `ControlPlaneInitialized`, which never becomes False again.

    Does nothing for a Cluster without a control-plane object: other controllers set the condition then.
    """
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
