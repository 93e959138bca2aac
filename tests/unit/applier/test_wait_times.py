"""How long conditions were False, measured when that ends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from shared.runtime.wait_times import ended

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
EARLIER = "2026-01-01T11:58:30Z"


def condition(type_: str, status: str, since: str | None = EARLIER) -> dict[str, Any]:
    return {"type": type_, "status": status} | ({"lastTransitionTime": since} if since else {})


@pytest.mark.parametrize(
    ("before", "after", "waits"),
    [
        pytest.param([condition("A", "False")], [condition("A", "True")], {"A": 90.0}, id="becomes True"),
        pytest.param([condition("A", "False")], [], {"A": 90.0}, id="is removed"),
        pytest.param([condition("A", "False")], [condition("A", "False")], {}, id="stays False"),
        pytest.param([condition("A", "True")], [condition("A", "True")], {}, id="was True"),
        pytest.param([], [condition("A", "True")], {}, id="is new"),
        pytest.param(
            [condition("A", "False"), condition("B", "False", "2026-01-01T11:59:59Z")],
            [condition("A", "False"), condition("B", "True")],
            {"B": 1.0},
            id="one of two",
        ),
        pytest.param([condition("A", "False", "2026-01-01T12:00:05Z")], [], {"A": 0.0}, id="clocks differ"),
        pytest.param([condition("A", "False", None)], [], {}, id="no time"),
        pytest.param([condition("A", "False", "yesterday")], [], {}, id="invalid time"),
        pytest.param([condition("A", "False", "2026-01-01T11:00:00")], [], {}, id="no time zone"),
        pytest.param([{"status": "False", "lastTransitionTime": EARLIER}], [], {}, id="no type"),
        pytest.param([condition("A", "False")], None, {}, id="a status without conditions"),
    ],
)
def test_ended_returns_the_seconds_of_conditions_that_are_no_longer_false(
    before: list[Any], after: list[Any] | None, waits: dict[str, float]
) -> None:
    status = {"ready": True} if after is None else {"conditions": after}
    assert ended({"status": {"conditions": before}}, status, NOW) == waits


def test_ended_returns_nothing_without_a_status() -> None:
    assert ended({}, None, NOW) == {}
    assert ended({}, {"conditions": [condition("A", "True")]}, NOW) == {}
