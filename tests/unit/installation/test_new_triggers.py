"""A Trigger is new until it has been Ready for a while."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from events.new_triggers import is_new
from shared.api.conditions import rfc3339

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ready(status: str, seconds: float) -> dict[str, Any]:
    return {"type": "Ready", "status": status, "lastTransitionTime": rfc3339(NOW - timedelta(seconds=seconds))}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, True),
        ({}, True),
        ({"observedGeneration": 2, "conditions": []}, True),
        ({"observedGeneration": 2, "conditions": [ready("Unknown", 600)]}, True),
        ({"observedGeneration": 2, "conditions": [ready("False", 600)]}, True),
        ({"observedGeneration": 1, "conditions": [ready("True", 600)]}, True),
        ({"observedGeneration": 2, "conditions": [ready("True", 100)]}, True),
        ({"observedGeneration": 2, "conditions": [ready("True", -60)]}, True),
        ({"observedGeneration": 2, "conditions": [ready("True", 180)]}, False),
        (
            {"observedGeneration": 2, "conditions": [{"type": "BrokerReady", "status": "False"}, ready("True", 600)]},
            False,
        ),
    ],
)
def test_trigger_is_new(status: dict[str, Any] | None, expected: bool) -> None:
    assert is_new({"metadata": {"generation": 2}, "status": status}, NOW) is expected
