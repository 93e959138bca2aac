"""Judges conditions: which are as wanted, and what to do about the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from shared.kube import Object

from ..reasons import find_for
from ..text import age

GOOD_IF_FALSE = (
    *("Paused", "Deleting", "RollingOut", "ScalingUp", "ScalingDown", "Remediating"),
    "ClusterNotCreated",  # in the history of a KINDCluster
)
NO_RELEASE = "NoClusterStack"
"""The reason of a ClusterAddon whose Cluster has a class that does not belong to a cluster stack."""


def is_good(condition: Mapping[str, Any]) -> bool:
    """Returns whether a condition is as wanted: True, or False for a type in `GOOD_IF_FALSE`."""
    return condition.get("status") == ("False" if condition.get("type") in GOOD_IF_FALSE else "True")


def describe_conditions(kind: str, conditions: Sequence[Mapping[str, Any]], now: datetime) -> list[Object]:
    """Returns the conditions of an object as JSON, first the conditions that are not as wanted."""
    return [describe_condition(kind, one, now) for one in sorted(conditions, key=is_good)]


def describe_condition(kind: str, condition: Mapping[str, Any], now: datetime) -> Object:
    """Returns a condition with its age, and its meaning and remedy unless it is as wanted."""
    if "type" not in condition:  # a history of messages, not Kubernetes conditions
        return {"message": condition.get("message"), "for": age(condition.get("timestamp"), now)}
    fields = {name: condition.get(name) for name in ("type", "status", "severity", "reason", "message")}
    since = condition.get("lastTransitionTime")
    help = {} if is_good(condition) else remedy(kind, condition.get("reason"), condition.get("type"))
    return {**fields, "since": since, "for": age(since, now), **help}


def remedy(kind: str, reason: object, condition: object = "") -> dict[str, str]:
    """Returns meaning and remedy of a reason as `explain` prints them; nothing for an unknown reason."""
    found = find_for(kind, str(reason), str(condition))
    return {"meaning": found.meaning_text, "toDo": found.remedy_text} if found else {}


def filled(value: Any) -> Any:
    """Returns the value without null and empty items."""
    if isinstance(value, Mapping):
        items = {name: filled(item) for name, item in value.items()}
        return {name: item for name, item in items.items() if item is not None and item not in ("", [], {})}
    return [filled(item) for item in value] if isinstance(value, list) else value
