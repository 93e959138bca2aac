"""A Trigger delivers events once it has been Ready for a while."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from events.late_triggers import delivers
from shared.api.conditions import rfc3339

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ready(status: str, seconds: float) -> dict[str, Any]:
    return {"type": "Ready", "status": status, "lastTransitionTime": rfc3339(NOW - timedelta(seconds=seconds))}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, False),
        ({}, False),
        ({"observedGeneration": 2, "conditions": []}, False),
        ({"observedGeneration": 2, "conditions": [ready("Unknown", 60)]}, False),
        ({"observedGeneration": 2, "conditions": [ready("False", 60)]}, False),
        ({"observedGeneration": 1, "conditions": [ready("True", 60)]}, False),
        ({"observedGeneration": 2, "conditions": [ready("True", 1)]}, False),
        ({"observedGeneration": 2, "conditions": [ready("True", -60)]}, False),
        ({"observedGeneration": 2, "conditions": [ready("True", 5)]}, True),
        (
            {"observedGeneration": 2, "conditions": [{"type": "BrokerReady", "status": "False"}, ready("True", 60)]},
            True,
        ),
    ],
)
def test_trigger_delivers(status: dict[str, Any] | None, expected: bool) -> None:
    assert delivers({"metadata": {"generation": 2}, "status": status}, NOW) is expected
