"""The conditions of a decision with their severities, and its events."""

from __future__ import annotations

from shared.api.conditions import READY
from shared.runtime import Decision


def reported_by(decision: Decision) -> tuple[dict[str, str], list[str]]:
    """Returns "status reason severity" of all conditions but their summary, and "type reason" of the events."""
    conditions = {
        one["type"]: " ".join(filter(None, (one["status"], one.get("reason"), one.get("severity"))))
        for one in (decision.status or {}).get("conditions", [])
        if one["type"] != READY
    }
    return conditions, [f"{event.type} {event.reason}" for event in decision.kubernetes_events]
