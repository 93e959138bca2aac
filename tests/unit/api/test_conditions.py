"""Setting and removing conditions, and the summary of v1beta1."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.api.conditions import (
    MAX_MESSAGE,
    get_condition,
    is_true,
    remove_condition,
    seconds_since,
    set_condition,
    summary,
    truncate,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, 987654, tzinfo=UTC)
STAMP = "2026-03-01T12:00:00Z"
LATER = NOW + timedelta(minutes=5)


def false(type_: str, severity: str | None = None, reason: str = "R", message: str = "m") -> dict[str, Any]:
    condition = {"type": type_, "status": "False", "reason": reason, "message": message, "lastTransitionTime": STAMP}
    return condition | ({"severity": severity} if severity else {})


def true(type_: str) -> dict[str, Any]:
    return {"type": type_, "status": "True", "message": "", "lastTransitionTime": STAMP}


def test_transition_time_has_seconds_and_changes_with_the_status() -> None:
    first = set_condition([], "A", "False", "Waiting", "one", now=NOW)
    assert first == [
        {"type": "A", "status": "False", "reason": "Waiting", "message": "one", "lastTransitionTime": STAMP}
    ]
    again = set_condition(first, "A", "False", "Waiting", "two", now=LATER)
    assert (again[0]["message"], again[0]["lastTransitionTime"]) == ("two", STAMP)
    turned = set_condition(again, "A", "True", "Done", now=LATER)
    assert turned[0]["lastTransitionTime"] == "2026-03-01T12:05:00Z"


def test_setting_the_same_condition_twice_changes_nothing() -> None:
    once = set_condition([], "A", "False", "R", "m", now=NOW, severity="Info", observed_generation=3)
    assert set_condition(once, "A", "False", "R", "m", now=LATER, severity="Info", observed_generation=3) == once


def test_time_is_written_in_utc() -> None:
    from datetime import timezone

    there = NOW.astimezone(timezone(timedelta(hours=5)))
    assert set_condition([], "A", "True", now=there)[0]["lastTransitionTime"] == STAMP


def test_empty_optional_fields_are_omitted() -> None:
    assert set_condition([], "A", "True", now=NOW) == [true("A")]
    full = set_condition([], "A", "False", "R", now=NOW, severity="Error", observed_generation=0)
    assert (full[0]["severity"], full[0]["observedGeneration"]) == ("Error", 0)


def test_severity_is_removed_when_the_status_becomes_true() -> None:
    assert set_condition([false("A", "Error")], "A", "True", now=NOW) == [true("A")]


def test_other_conditions_keep_position_and_content() -> None:
    foreign = {"type": "Foreign", "status": "Unknown", "extra": 1}
    history = {"timestamp": STAMP, "message": "created"}
    before = [foreign, false("A"), history]
    after = set_condition(before, "A", "True", now=LATER)
    assert [after[0], after[2]] == [foreign, history]
    assert [entry.get("type") for entry in set_condition(before, "New", "True", now=NOW)] == [
        "Foreign",
        "A",
        None,
        "New",
    ]
    assert before == [foreign, false("A"), history], "the given list is not changed"


@pytest.mark.parametrize("garbage", [None, [], {}, "text", 3, ["text", None], [{}], [{"status": "True"}]])
def test_invalid_list_reads_as_empty(garbage: Any) -> None:
    assert get_condition(garbage, "A") is None
    assert not is_true(garbage, "A")
    assert get_condition(set_condition(garbage, "A", "True", now=NOW), "A") == true("A")


@pytest.mark.parametrize(("status", "expected"), [("True", True), ("False", False), ("Unknown", False), (None, False)])
def test_is_true_only_for_status_true(status: str | None, expected: bool) -> None:
    assert is_true([{"type": "A", "status": status}], "A") is expected


def test_remove_condition_keeps_others() -> None:
    assert remove_condition([true("A"), true("B")], "A") == [true("B")]
    assert remove_condition([true("B")], "A") == [true("B")]


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([true("A"), true("B")], ("True", None, None)),
        ([true("A"), false("B", "Info")], ("False", "B", "Info")),
        ([false("A", "Info"), false("B", "Error"), false("C", "Warning")], ("False", "B", "Error")),
        ([false("A", "Info"), false("B", "Warning")], ("False", "B", "Warning")),
        ([false("A", "Warning"), false("B", "Warning")], ("False", "A", "Warning")),
        ([false("A", "Warning"), false("B")], ("False", "B", None)),  # no severity counts as Error
        ([{"type": "A", "status": "Unknown", "reason": "A"}, true("B")], ("Unknown", "A", None)),
        ([{"type": "A", "status": "Unknown", "reason": "A"}, false("B", "Info")], ("False", "B", "Info")),
        ([{"type": "A"}], ("Unknown", None, None)),
    ],
)
def test_summary_shows_the_most_severe_condition(
    others: list[dict[str, Any]], expected: tuple[str, str | None, str | None]
) -> None:
    named = [entry | ({"reason": entry["type"]} if "reason" in entry else {}) for entry in others]
    ready = get_condition(summary(named, now=NOW), "Ready")
    assert ready is not None
    assert (ready["status"], ready.get("reason"), ready.get("severity")) == expected


def test_summary_ignores_itself_and_is_stable() -> None:
    once = summary([false("A", "Error", "Broken", "it broke")], now=NOW)
    assert once[-1] == false("Ready", "Error", "Broken", "it broke")
    assert summary(once, now=LATER) == once
    healed = summary(set_condition(once, "A", "True", now=LATER), now=LATER)
    assert is_true(healed, "Ready")


def test_no_summary_without_other_conditions() -> None:
    assert summary([], now=NOW) == []
    assert summary([true("Ready")], now=NOW) == []


@pytest.mark.parametrize(
    ("first", "reason"),
    [((), "B"), (("C",), "C"), (("A", "C"), "C"), (("Absent",), "B")],
    ids=["by severity", "one type first", "by severity among the first", "the first one is absent"],
)
def test_summary_shows_conditions_of_given_types_first(first: tuple[str, ...], reason: str) -> None:
    others = [false("A", "Info", "A"), false("B", "Error", "B"), false("C", "Warning", "C")]
    ready = get_condition(summary(others, now=NOW, first=first), "Ready") or {}
    assert ready["reason"] == reason


def test_severity_that_is_not_known_counts_as_error() -> None:
    ready = get_condition(summary([false("A", "Warning", "A"), false("B", "Fatal", "B")], now=NOW), "Ready") or {}
    assert ready["reason"] == "B"


def test_summary_is_unknown_by_the_condition_that_is_neither_true_nor_false() -> None:
    ready = (
        get_condition(summary([true("A"), {"type": "B", "status": "Unknown", "reason": "B"}], now=NOW), "Ready") or {}
    )
    assert (ready["status"], ready["reason"]) == ("Unknown", "B")


@pytest.mark.parametrize(
    ("conditions", "seconds"),
    [
        ([true("A")], 300.0),
        ([true("B")], 0.0),
        ([{"type": "A"}], 0.0),
        ([{"type": "A", "lastTransitionTime": "soon"}], 0.0),
        ([{"type": "A", "lastTransitionTime": 7}], 0.0),
        (None, 0.0),
    ],
    ids=["five minutes", "another type", "no time", "no valid time", "no text", "no conditions"],
)
def test_seconds_since_the_last_transition(conditions: Any, seconds: float) -> None:
    assert seconds_since(conditions, "A", LATER.replace(microsecond=0)) == seconds


@pytest.mark.parametrize(("length", "cut"), [(MAX_MESSAGE - 1, False), (MAX_MESSAGE, False), (MAX_MESSAGE + 1, True)])
def test_message_is_cut_to_its_limit(length: int, cut: bool) -> None:
    message = "m" * length
    expected = "m" * (MAX_MESSAGE - 1) + "…" if cut else message
    assert truncate(message) == expected
