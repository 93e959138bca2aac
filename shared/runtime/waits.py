"""How long a condition was False, told when that ends: what operators ask of a system that waits a lot."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .. import metrics
from ..kube import dig


def observe(function: str, before: Mapping[str, Any], status: Mapping[str, Any] | None, now: datetime) -> None:
    for type_, seconds in ended(before, status, now).items():
        metrics.WAITED.labels(function, type_).observe(seconds)


def ended(before: Mapping[str, Any], status: Mapping[str, Any] | None, now: datetime) -> dict[str, float]:
    """Type -> seconds of the conditions that are False in the object `before` and not in the status that follows."""
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
            continue  # written by another program, in a form of its own
    return waits
