"""Builds `status.deprecated.v1beta1`: conditions and failures as API version v1beta1 reported them."""

from __future__ import annotations

from shared.api.cluster import CONTROL_PLANE_INITIALIZED
from shared.api.conditions import READY, get_condition, remove_condition, set_condition, summary
from shared.kube import Object, dig

from .observed import Observed
from .references import CONTROL_PLANE, INFRASTRUCTURE, failure
from .status import ClusterStatusBuilder

_CONDITIONS = {
    INFRASTRUCTURE.condition: "InfrastructureReady",
    CONTROL_PLANE_INITIALIZED: "ControlPlaneInitialized",
    CONTROL_PLANE.condition: "ControlPlaneReady",
}
"""The v1beta1 names of the conditions to report."""
_SUMMARIZED = ("ControlPlaneReady", "InfrastructureReady")
"""The conditions that the v1beta1 condition `Ready` summarizes; the first one precedes the other."""


def deprecated(builder: ClusterStatusBuilder, observed: Observed) -> Object:
    """Returns the patch of `status.deprecated`: conditions with severities, and failures of referenced objects."""
    conditions = dig(builder.cluster, "status.deprecated.v1beta1.conditions", [])
    for type_, name in _CONDITIONS.items():
        found = get_condition(builder.conditions, type_)
        if found is not None:
            status, message = found["status"], found.get("message") or ""
            reason = "" if status == "True" else found.get("reason") or ""
            severity = "Info" if status == "False" else None
            conditions = set_condition(conditions, name, status, reason, message, now=builder.now, severity=severity)
    summarized = [one for type_ in (*_SUMMARIZED, READY) if (one := get_condition(conditions, type_)) is not None]
    block = [*remove_condition(conditions, READY), get_condition(summary(summarized, now=builder.now), READY)]
    return {"v1beta1": {"conditions": [_without_message(one) for one in block if one], **_failure(builder, observed)}}


def _without_message(condition: Object) -> Object:
    """Returns the condition, without an empty `message`, because v1beta1 omits empty messages."""
    return {name: value for name, value in condition.items() if name != "message" or value}


def _failure(builder: ClusterStatusBuilder, observed: Observed) -> Object:
    """Returns the patch of the failure that a referenced object reports.

    A failure that is no longer reported is removed, but only if both objects were read.
    """
    failures = [failure(found) for found in (observed.infrastructure, observed.control_plane)]
    reason, message = next((each for each in failures if any(each)), ("", ""))
    unreadable = "failed" in (observed.infrastructure.state, observed.control_plane.state)
    if not (reason or message) and (observed.recorded or unreadable):
        return {}
    now = {"failureReason": reason or None, "failureMessage": message or None}
    before = dig(builder.cluster, "status.deprecated.v1beta1", {})
    return {name: value for name, value in now.items() if value or name in before}
