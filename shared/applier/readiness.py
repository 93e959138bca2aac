"""Judges whether an applied object is ready, by its status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..kube import Object, deleting, dig

_Check = Callable[[Object], str]


def unready_reason(obj: Object) -> str:
    """Returns why an object is not ready; empty if it is ready or its kind does not report readiness."""
    if deleting(obj):
        return "is being deleted"
    generation, observed = dig(obj, "metadata.generation", 0), dig(obj, "status.observedGeneration")
    check = _CHECKS.get((obj["apiVersion"].rpartition("/")[0], obj["kind"]))
    if isinstance(observed, int) and observed < generation:
        return "latest generation not observed by its controller yet"
    if check is None:
        return _by_conditions(obj)
    if observed is None and obj["kind"] in ("Deployment", "StatefulSet", "DaemonSet"):
        return "not observed by its controller yet"
    return check(obj)


def incomplete_reason(obj: Object) -> str:
    """Returns why a Job or Pod is not complete, as the next wave requires it; empty for all other kinds."""
    if obj["kind"] == "Job":
        return _job(obj)
    if obj["kind"] == "Pod":
        phase = dig(obj, "status.phase", "Pending")
        return "" if phase == "Succeeded" else f"is {phase}"
    return ""


def has_failed(obj: Object) -> bool:
    """Returns whether a Job or Pod has failed for good."""
    if obj["kind"] == "Job":
        return _condition(obj, "Failed").get("status") == "True" and bool(_job(obj))
    return bool(obj["kind"] == "Pod" and dig(obj, "status.phase") == "Failed")


def _deployment(obj: Object) -> str:
    desired = dig(obj, "spec.replicas", 1)
    progressing = _condition(obj, "Progressing")
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return str(progressing.get("message") or "its progress deadline was exceeded")
    if missing := _replica_shortage(obj, "updatedReplicas", desired, "updated"):
        return missing
    # Replicas of the former generation count as available, too.
    if (former := dig(obj, "status.replicas", 0) - dig(obj, "status.updatedReplicas", 0)) > 0:
        return f"{former} of its former replicas still exist"
    return _replica_shortage(obj, "availableReplicas", desired, "available")


def _stateful_set(obj: Object) -> str:
    desired = dig(obj, "spec.replicas", 1)
    ready = _replica_shortage(obj, "readyReplicas", desired, "ready")
    if ready or dig(obj, "spec.updateStrategy.type") == "OnDelete":
        return ready
    updated = max(0, desired - dig(obj, "spec.updateStrategy.rollingUpdate.partition", 0))
    return _replica_shortage(obj, "updatedReplicas", updated, "updated")


def _daemon_set(obj: Object) -> str:
    desired = dig(obj, "status.desiredNumberScheduled", 0)
    if dig(obj, "spec.updateStrategy.type") != "OnDelete":
        updated = _replica_shortage(obj, "updatedNumberScheduled", desired, "updated")
        if updated:
            return updated
    return _replica_shortage(obj, "numberAvailable", desired, "available")


def _job(obj: Object) -> str:
    if _condition(obj, "Complete").get("status") == "True" or dig(obj, "spec.suspend") is True:
        return ""
    failed = _condition(obj, "Failed")
    if failed.get("status") == "True":
        return f"failed: {failed.get('message') or failed.get('reason') or 'no reason given'}"
    return "has not completed yet"


def _claim(obj: Object) -> str:
    phase = dig(obj, "status.phase", "Pending")
    return "" if phase == "Bound" else f"is {phase}, not Bound"


def _pod(obj: Object) -> str:
    phase = dig(obj, "status.phase", "Pending")
    return "" if phase == "Succeeded" or _condition(obj, "Ready").get("status") == "True" else f"is {phase}"


def _needs(type_: str) -> _Check:
    def check(obj: Object) -> str:
        condition = _condition(obj, type_)
        if condition.get("status") == "True":
            return ""
        return f"is not {type_}" + (f": {condition['message']}" if condition.get("message") else "")

    return check


_CHECKS: dict[tuple[str, str], _Check] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Pod"): _pod,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _needs("Established"),
    ("apiregistration.k8s.io", "APIService"): _needs("Available"),
}


def _by_conditions(obj: Object) -> str:
    """Judges any other kind by the condition Ready or Available, if its controller reports one."""
    for type_ in ("Ready", "Available"):
        if _condition(obj, type_):
            return _needs(type_)(obj)
    return ""


def _condition(obj: Object, type_: str) -> Mapping[str, Any]:
    found = dig(obj, "status.conditions", [])
    conditions = [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []
    return next((entry for entry in conditions if entry.get("type") == type_), {})


def _replica_shortage(obj: Object, field: str, desired: int, word: str) -> str:
    have = dig(obj, f"status.{field}", 0)
    return "" if have >= desired else f"{have} of {desired} replicas {word}"
