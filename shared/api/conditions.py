"""Lists of conditions, as plain data: a list goes in, a new list comes out, conditions of others stay as they are.

Serves both shapes that Cluster API knows: metav1 (`observedGeneration`) and its own v1beta1 (`severity` where the
status is False). Entries without a type, which other programs may have written, are carried along untouched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from shared.kube.resources import Object

Conditions = Iterable[Mapping[str, Any]] | None

READY = "Ready"

MOST = 4_000
"""Characters of a message that we write: names can be of any length, conditions cannot."""

_SEVERITIES = ("Error", "Warning", "Info")


def get_condition(conditions: Conditions, type: str) -> Object | None:
    """The condition of this type; None also for what is no list of conditions at all."""
    return next((condition for condition in _listed(conditions) if condition.get("type") == type), None)


def is_true(conditions: Conditions, type: str) -> bool:
    return (get_condition(conditions, type) or {}).get("status") == "True"


def seconds_since(conditions: Conditions, type: str, now: datetime) -> float:
    """Since the condition became what it is; 0 where there is none, or no one can tell."""
    try:
        return (
            now - datetime.fromisoformat((get_condition(conditions, type) or {})["lastTransitionTime"])
        ).total_seconds()
    except (KeyError, ValueError, TypeError):
        return 0.0


def remove_condition(conditions: Conditions, type: str) -> list[Object]:
    return [condition for condition in _listed(conditions) if condition.get("type") != type]


def set_condition(
    conditions: Conditions,
    type: str,
    status: str,
    reason: str = "",
    message: str = "",
    *,
    now: datetime,
    severity: str | None = None,
    observed_generation: int | None = None,
) -> list[Object]:
    """The list with this condition in its old place, or at the end.

    `lastTransitionTime` moves only when the status does, so that saying the same thing twice gives the same list.
    """
    before = get_condition(conditions, type) or {}
    transition = before.get("lastTransitionTime") if before.get("status") == status else None
    condition: Object = {
        "type": type,
        "status": status,
        "message": message,
        "lastTransitionTime": transition or rfc3339(now),
    }
    optional = {"reason": reason, "severity": severity, "observedGeneration": observed_generation}
    condition |= {name: value for name, value in optional.items() if value not in ("", None)}
    listed = _listed(conditions)
    if not before:
        return [*listed, condition]
    return [condition if entry.get("type") == type else entry for entry in listed]


def summary(
    conditions: Conditions,
    *,
    now: datetime,
    type: str = READY,
    observed_generation: int | None = None,
    first: Collection[str] = (),
) -> list[Object]:
    """The list with `type` (v1beta1's `Ready`) telling of all others.

    False with reason, severity and message of the worst that is False (the first of them in the list; those of the
    types `first` before all others), else Unknown if one is Unknown, else True. Where there is nothing to sum up, there
    is no summary.
    """
    others = [entry for entry in remove_condition(conditions, type) if entry.get("type")]
    if not others:
        return remove_condition(conditions, type)
    failed = [entry for entry in others if entry.get("status") == "False"]
    failed.sort(key=lambda entry: (entry["type"] not in first, _rank(entry)))
    unknown = [entry for entry in others if entry.get("status") != "True"]
    worst = next(iter(failed or unknown), {"status": "True"})
    return set_condition(
        conditions,
        type,
        worst.get("status") or "Unknown",
        worst.get("reason") or "",
        worst.get("message") or "",
        now=now,
        severity=worst.get("severity"),
        observed_generation=observed_generation,
    )


def shortened(message: str) -> str:
    """As much of it as a condition may have."""
    return message if len(message) <= MOST else f"{message[: MOST - 1]}…"


def rfc3339(time: datetime) -> str:
    """In UTC and whole seconds, as metav1.Time is written."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _rank(condition: Mapping[str, Any]) -> int:
    """0 for the worst; a severity that is not given counts as Error, as in Cluster API."""
    severity = condition.get("severity") or "Error"
    return _SEVERITIES.index(severity) if severity in _SEVERITIES else 0


def _listed(conditions: Any) -> list[Object]:
    return [dict(entry) for entry in conditions if isinstance(entry, Mapping)] if isinstance(conditions, list) else []
