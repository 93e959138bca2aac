"""Sets the conditions of a Cluster that mirror the objects it refers to, and `Available`, which summarizes others."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from shared.api import cluster as cluster_api
from shared.api.cluster import CONTROL_PLANE_INITIALIZED, TOPOLOGY_RECONCILED, conditions
from shared.api.conditions import get_condition, is_reason
from shared.api.summary import Reasons, Weight, summarize, weigh
from shared.kube import Object, deleting, dig
from shared.references import NOT_ALLOWED, LookupResult

from .descendants import machines
from .observed import Observed
from .probe import PROBED
from .references import CONTROL_PLANE, INFRASTRUCTURE, Role
from .status import ClusterStatusBuilder, foreign_conditions

TOPOLOGY_TIMEOUT = timedelta(minutes=1)
"""The time that a topology controller has for its first reconciliation of a new Cluster."""
WAITING_FOR_TOPOLOGY = "Waiting for cluster topology to be reconciled"
WAITING_FOR_NODE = "Waiting for the first control plane machine to have status.nodeRef set"

_AVAILABLE = ("Deleting", PROBED, INFRASTRUCTURE.condition, CONTROL_PLANE.condition, "WorkersAvailable")
"""The conditions that `Available` summarizes, the most relevant first; topology and availability gates follow."""
_TOPOLOGY_FAILED = ("ReconcileFailed", "ClusterClassNotReconciled")
"""The reasons for which an unreconciled topology makes the Cluster unavailable. The others are about a rollout."""


def set_infrastructure_ready(builder: ClusterStatusBuilder, observed: Observed) -> None:
    """Sets `InfrastructureReady` to the condition `Ready` of the infrastructure object."""
    if observed.infrastructure.state != "unreferenced":
        _mirror(builder, INFRASTRUCTURE, observed.infrastructure)
    elif _is_topology_awaited(builder.cluster):
        _set_topology_awaited(builder, INFRASTRUCTURE)
    else:
        builder.set(INFRASTRUCTURE.condition, "True", "NotUsed")


def set_control_plane_available(builder: ClusterStatusBuilder, observed: Observed) -> None:
    """Sets `ControlPlaneAvailable` to the condition `Available` of the control-plane object.

    Without such an object the control plane is available once one of its Machines, if there are any, has a node.
    """
    type_ = CONTROL_PLANE.condition
    if observed.control_plane.state != "unreferenced":
        _mirror(builder, CONTROL_PLANE, observed.control_plane)
    elif _is_topology_awaited(builder.cluster):
        _set_topology_awaited(builder, CONTROL_PLANE)
    elif observed.failure:
        builder.set(type_, "Unknown", "InternalError", observed.failure)
    elif observed.descendants is None:
        builder.keep(type_)
    elif not machines(observed.descendants, control_plane=True):
        builder.set(type_, "True", "NotUsed")
    elif builder.initialization.get(CONTROL_PLANE.fact):
        builder.set(type_, "True", "Available")
    else:
        builder.set(type_, "False", "NotAvailable", WAITING_FOR_NODE)


def set_control_plane_initialized(builder: ClusterStatusBuilder, observed: Observed) -> None:
    """Sets `ControlPlaneInitialized`, which never becomes False again.

    Without a control-plane object the control plane is initialized once one of its Machines has a node; without
    Machines, once the API server answers.
    """
    type_: Final = CONTROL_PLANE_INITIALIZED
    found = observed.control_plane
    if builder.initialization.get(CONTROL_PLANE.fact):
        builder.set(type_, "True", "Initialized")
    elif found.state == "failed":
        builder.set(type_, "Unknown", found.reason or "InternalError", found.error)
    elif found.state == "absent":
        builder.set(type_, "Unknown", "ObjectDoesNotExist", f"{found.kind} does not exist")
    elif found.object is not None:
        builder.set(type_, "False", "NotInitialized", "Control plane not yet initialized")
    elif _is_topology_awaited(builder.cluster):
        message = "" if deleting(builder.cluster) else WAITING_FOR_TOPOLOGY
        builder.set(type_, "Unknown", "ObjectDoesNotExist", message)
    elif observed.failure:
        builder.set(type_, "Unknown", "InternalError", observed.failure)
    elif observed.descendants is None:
        builder.keep(type_)
    else:
        own = machines(observed.descendants, control_plane=True)
        answers = any(dig(machine, "status.nodeRef") for machine in own) if own else builder.is_true(PROBED)
        if answers:
            builder.initialization[CONTROL_PLANE.fact] = True
            builder.set(type_, "True", "Initialized")
        else:
            message = WAITING_FOR_NODE if own else "Waiting for the API server of the cluster to answer"
            builder.set(type_, "False", "NotInitialized", message)


def set_available(builder: ClusterStatusBuilder, observed: Observed) -> None:
    """Sets `Available`: the Cluster is available if all summarized conditions are good.

    Requeues the Cluster if the gates of the class were not read, because any condition may then belong to a gate.
    """
    own = dig(builder.cluster, "spec.availabilityGates")
    listed = (observed.class_gates or ()) if own is None else own
    foreign = {condition["type"] for condition in foreign_conditions(builder.conditions)}
    if observed.class_gates is None and foreign - {TOPOLOGY_RECONCILED}:  # TopologyReconciled is summarized anyway
        builder.waits.append(0.0)
    gates = {gate["conditionType"]: gate.get("polarity") for gate in listed if gate.get("conditionType")}
    negative = {"Deleting", *(type_ for type_, polarity in gates.items() if polarity == "Negative")}
    gone = {INFRASTRUCTURE.condition, CONTROL_PLANE.condition} if deleting(builder.cluster) else set()

    def weight(condition: Object) -> Weight:
        type_, reason = condition["type"], condition.get("reason")
        if type_ in gone and reason in ("ObjectDeleted", "ObjectDoesNotExist"):
            return "info"
        if type_ == TOPOLOGY_RECONCILED and condition["status"] == "False" and reason not in _TOPOLOGY_FAILED:
            return "info"
        return weigh(condition, negative=type_ in negative)

    merged = summarize(
        builder.conditions,
        (*_AVAILABLE, TOPOLOGY_RECONCILED, *gates),
        Reasons("Available", "NotAvailable", "AvailableUnknown"),
        weight,
        # If a user sets the references, no topology controller is needed.
        optional=() if _is_topology_awaited(builder.cluster) else (TOPOLOGY_RECONCILED,),
    )
    builder.set("Available", *merged)


def _is_topology_awaited(cluster: Object) -> bool:
    """Returns whether a topology controller has to set the references.

    It sets both at once, because if one of them is set, the other will not follow.
    """
    filled_in = cluster_api.infrastructure_ref(cluster) or cluster_api.control_plane_ref(cluster)
    return dig(cluster, "spec.topology") is not None and not filled_in


def _set_topology_awaited(builder: ClusterStatusBuilder, role: Role) -> None:
    message = "" if deleting(builder.cluster) else WAITING_FOR_TOPOLOGY
    late = not deleting(builder.cluster) and _topology_overdue(builder)
    if late:
        message += (
            "; no topology controller has reconciled this Cluster yet: is Cluster API core running, with its "
            "feature gate ClusterTopology? Without it, set spec.infrastructureRef and spec.controlPlaneRef yourself"
        )
    event_type = "Warning" if late and role is INFRASTRUCTURE else ""
    builder.set(role.condition, "False", "ObjectDoesNotExist", message, event_type=event_type)


def _topology_overdue(builder: ClusterStatusBuilder) -> bool:
    """Returns whether the topology controller missed its time; before that, requeues the Cluster for that moment."""
    created = cluster_api.created_at(builder.cluster)
    if created is None or get_condition(builder.conditions, TOPOLOGY_RECONCILED) is not None:
        return False
    left = (created + TOPOLOGY_TIMEOUT - builder.now).total_seconds()
    if left > 0:
        builder.waits.append(left)
    return left <= 0


def _mirror(builder: ClusterStatusBuilder, role: Role, found: LookupResult) -> None:
    """Sets the Cluster's condition for a referenced object: the object's own, or why the object cannot be read."""
    being_deleted = deleting(builder.cluster)
    if found.state == "failed":
        status = "False" if found.reason == NOT_ALLOWED else "Unknown"
        builder.set(role.condition, status, found.reason or "InternalError", found.error, event_type="Warning")
    elif found.object is None:
        existed = builder.initialization.get(role.fact) is True
        reason, message = "ObjectDoesNotExist", f"{found.kind} does not exist"
        if existed:
            still = "" if being_deleted else " while the cluster still exists"
            reason, message = "ObjectDeleted", f"{found.kind} has been deleted{still}"
        # An infrastructure object is often created a moment after its Cluster, so this records no warning.
        is_unexpected = not being_deleted and (existed or role is CONTROL_PLANE)
        builder.set(role.condition, "False", reason, message, event_type="Warning" if is_unexpected else "")
    else:
        _mirror_object(builder, role, found.kind, found.object)


def _mirror_object(builder: ClusterStatusBuilder, role: Role, kind: str, obj: Object) -> None:
    found, problem = get_condition(conditions(obj), role.object_condition), _invalid(conditions(obj))
    if problem:
        message = f"failed to convert status.conditions from {kind} to []metav1.Condition: {problem}"
        builder.set(role.condition, "Unknown", "InvalidConditionReported", message)
    elif found is not None:
        reason, message = found.get("reason") or "", found.get("message") or ""
        if not is_reason(reason):  # the API server would refuse it
            reason, message = "", ": ".join(filter(None, (reason, message)))
        reason = reason or (role.object_condition if found["status"] == "True" else "NoReasonReported")
        builder.set(role.condition, found["status"], reason, message)
    elif builder.initialization.get(role.fact):
        builder.set(role.condition, "True", role.object_condition)
    else:
        detail = dig(obj, "status.failureMessage")
        message = f"{kind} {role.field} is false" + (f": {detail}" if detail else "")
        builder.set(role.condition, "False", f"Not{role.object_condition}", message)


def _invalid(reported: list[Object]) -> str:
    """Returns the fault of the first invalid condition of any type, in the words of Cluster API core."""
    for one in reported:
        type_, status = one.get("type"), one.get("status")
        if not type_:
            return "type must be set for all conditions"
        if not status:
            return f"status must be set for the {type_} condition"
        if status not in ("True", "False", "Unknown"):
            return f"status for the {type_} condition must be one of True, False, Unknown"
    return ""
