"""Measures how long conditions were False, for the metric `capi_functions_waited_seconds`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .. import metrics
from ..kube import dig


def observe(function: str, before: Mapping[str, Any], status: Mapping[str, Any] | None, now: datetime) -> None:
    """Records in the metric the waits that `status` ends; `before` is the object before the status is written."""
    for type_, seconds in ended(before, status, now).items():
        metrics.WAITED.labels(function, type_).observe(seconds)


def ended(before: Mapping[str, Any], status: Mapping[str, Any] | None, now: datetime) -> dict[str, float]:
    """Returns the conditions that are False in `before` but not in `status`, with the seconds that they were False."""
    if not status or "conditions" not in status:
        return {}
    waits: dict[str, float] = {}
    false = {entry.get("type") for entry in status["conditions"] if entry.get("status") == "False"}
    for entry in dig(before, "status.conditions", []):
        if entry.get("status") != "False" or entry.get("type") in false:
            continue
        try:
            since = datetime.fromisoformat(entry["lastTransitionTime"])
            waits[entry["type"]] = max(0.0, (now - since).total_seconds())
        except (KeyError, TypeError, ValueError):
            continue  # another program wrote the condition, without a valid time
    return waits
