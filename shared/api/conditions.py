"""Reads and sets conditions in `status.conditions`. A list is never changed in place: setters return a new one.

Cluster API has two kinds of conditions, and both are supported: metav1.Condition with `observedGeneration`, and its own
v1beta1 Condition, which has a `severity` if the status is False. Entries of other types are kept unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from shared.kube.resources import Object

Conditions = Iterable[Mapping[str, Any]] | None

READY: Final = "Ready"

MAX_MESSAGE = 4_000
"""The longest message of a condition, in characters. Messages that list objects could exceed the limit of the API."""

_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_MAX_REASON = 256
"""The longest reason of a v1beta1 condition, in characters; a metav1 condition may have a longer one."""

_SEVERITIES = ("Error", "Warning", "Info")


def abridged(texts: Sequence[str], most: int = 10, separator: str = "; ") -> str:
    """Returns the first `most` texts in one line, and how many more there are."""
    more = [f"and {len(texts) - most} more"] if len(texts) > most else []
    return separator.join([*texts[:most], *more])


def get_condition(conditions: Conditions, type: str) -> Object | None:
    """Returns the condition of this type; None if there is none, or if `conditions` is not a list."""
    if not isinstance(conditions, list):
        return None
    return next((dict(one) for one in conditions if isinstance(one, dict) and one.get("type") == type), None)


def is_true(conditions: Conditions, type: str) -> bool:
    """Returns whether the condition of a type exists with the status True."""
    return (get_condition(conditions, type) or {}).get("status") == "True"


def seconds_since(conditions: Conditions, type: str, now: datetime) -> float:
    """Returns the seconds since the last transition of a condition; 0 if it is absent or has no valid time."""
    try:
        return (
            now - datetime.fromisoformat((get_condition(conditions, type) or {})["lastTransitionTime"])
        ).total_seconds()
    except (KeyError, ValueError, TypeError):
        return 0.0


def remove_condition(conditions: Conditions, type: str) -> list[Object]:
    """Returns the list without the condition of a type."""
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
    """Returns the list with the condition set, at its old position or at the end.

    `lastTransitionTime` changes only with the status, so setting the same condition twice gives the same list.
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


def summary(conditions: Conditions, *, now: datetime, first: Collection[str] = ()) -> list[Object]:
    """Returns the list with the condition `Ready` set to a summary of all others, as in v1beta1.

    If a condition is False, the summary is False, with the reason, severity and message of the most severe False
    condition; conditions of the types in `first` precede all others. If none is False, the summary is Unknown if a
    condition is Unknown, else True. Without other conditions there is no summary.
    """
    others = [entry for entry in remove_condition(conditions, READY) if entry.get("type")]
    if not others:
        return remove_condition(conditions, READY)
    failed = [entry for entry in others if entry.get("status") == "False"]
    failed.sort(key=lambda entry: (entry["type"] not in first, _rank(entry)))
    unknown = [entry for entry in others if entry.get("status") != "True"]
    decisive = next(iter(failed or unknown), {"status": "True"})
    return set_condition(
        conditions,
        READY,
        decisive.get("status") or "Unknown",
        decisive.get("reason") or "",
        decisive.get("message") or "",
        now=now,
        severity=decisive.get("severity"),
    )


def is_reason(text: str) -> bool:
    """Returns whether API servers accept a text as the reason of a condition."""
    return len(text) <= _MAX_REASON and _REASON.fullmatch(text) is not None


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, which gets an s unless the number is 1: `1 object`, `2 objects`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def truncate(message: str) -> str:
    """Cuts a message to `MAX_MESSAGE` characters."""
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 1]}…"


def rfc3339(time: datetime) -> str:
    """Formats a time like metav1.Time: in UTC, with whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _rank(condition: Mapping[str, Any]) -> int:
    """Returns the rank of the severity, 0 for the most severe. The default is Error, as in Cluster API."""
    severity = condition.get("severity") or "Error"
    return _SEVERITIES.index(severity) if severity in _SEVERITIES else 0


def _listed(conditions: Any) -> list[Object]:
    """Returns the entries that are mappings, empty if `conditions` is not a list."""
    return [entry for entry in conditions if isinstance(entry, dict)] if isinstance(conditions, list) else []
