"""When windows are open, in time zones and over changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.windows import Window, WindowError


def window(schedule: str, duration: str = "1h", zone: str | None = None) -> Window:
    return Window.parse({"schedule": schedule, "duration": duration, **({"timeZone": zone} if zone else {})})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "now", "start"),
    [
        pytest.param("0 22 * * *", "2026-01-01T22:00", "2026-01-02T22:00", id="after the present beginning"),
        pytest.param("*/15 * * * *", "2026-01-01T10:16", "2026-01-01T10:30", id="step"),
        pytest.param("5/20 9 * * *", "2026-01-01T09:06", "2026-01-01T09:25", id="step from a number"),
        pytest.param("0 9-17/4 * * *", "2026-01-01T10:00", "2026-01-01T13:00", id="step in a range"),
        pytest.param("0 0 * * 1-5", "2026-01-02T01:00", "2026-01-05T00:00", id="days of the week"),
        pytest.param("0 0 * * mon,WED", "2026-01-05T01:00", "2026-01-07T00:00", id="names of days"),
        pytest.param("0 0 * * 7", "2026-01-01T00:00", "2026-01-04T00:00", id="7 is Sunday"),
        pytest.param("0 0 1 FEB *", "2026-01-01T00:00", "2026-02-01T00:00", id="name of a month"),
        pytest.param("0 0 13 * 5", "2026-01-03T00:00", "2026-01-09T00:00", id="either day if both are given"),
        pytest.param("0 0 29 2 *", "2026-01-01T00:00", "2028-02-29T00:00", id="leap day"),
        pytest.param("0 0 31 4 *", "2026-01-01T00:00", None, id="never"),
    ],
)
def test_next_start(schedule: str, now: str, start: str | None) -> None:
    assert window(schedule).next_start(at(now)) == (at(start) if start else None)


@pytest.mark.parametrize(
    ("schedule", "duration", "now", "expected"),
    [
        ("0 22 * * *", "4h", "2026-01-01T21:59:59", False),
        ("0 22 * * *", "4h", "2026-01-01T22:00:00", True),
        ("0 22 * * *", "4h", "2026-01-02T01:59:59", True),
        ("0 22 * * *", "4h", "2026-01-02T02:00:00", False),
        ("0 0 * * 6", "48h", "2026-01-04T23:59:00", True),
        ("0 0 * * 6", "48h", "2026-01-05T00:00:00", False),
        ("0 0 * * 1", "168h", "2026-01-11T23:00:00", True),
        ("0 * * * *", "90m", "2026-01-01T12:45:00", True),
    ],
)
def test_window_is_open_for_its_duration(schedule: str, duration: str, now: str, expected: bool) -> None:
    assert window(schedule, duration).is_open(at(now)) is expected


@pytest.mark.parametrize(
    ("schedule", "now", "start"),
    [
        pytest.param("0 22 * * *", "2026-01-01T12:00", "2026-01-01T21:00", id="winter"),
        pytest.param("0 22 * * *", "2026-07-01T12:00", "2026-07-01T20:00", id="summer"),
        pytest.param("30 2 * * *", "2026-03-28T12:00", "2026-03-29T01:30", id="a skipped time begins later"),
        pytest.param("30 2 * * *", "2026-10-24T12:00", "2026-10-25T00:30", id="a repeated time begins once, the first"),
    ],
)
def test_schedule_is_in_the_time_zone(schedule: str, now: str, start: str) -> None:
    assert window(schedule, zone="Europe/Berlin").next_start(at(now)) == at(start)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param("2026-03-28T23:59", False, id="before the hour that is skipped"),
        pytest.param("2026-03-29T03:59", True, id="longer by the clock"),
        pytest.param("2026-03-29T04:00", False, id="after it"),
        pytest.param("2026-10-24T22:59", False, id="before the hour that is repeated"),
        pytest.param("2026-10-25T02:59", True, id="shorter by the clock"),
        pytest.param("2026-10-25T03:00", False, id="after that"),
    ],
)
def test_window_over_a_change_of_the_clock_lasts_for_its_duration(now: str, expected: bool) -> None:
    assert window("0 1 * * *", "4h", "Europe/Berlin").is_open(at(now)) is expected


def test_window_begins_on_a_day_without_midnight() -> None:
    one = window("0 0 * * 5", zone="Africa/Cairo")
    assert one.next_start(at("2026-04-23T12:00")) == at("2026-04-23T22:00")
    assert one.is_open(at("2026-04-23T22:59"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": "* * * *"}, "needs minute, hour, day, month and weekday"),
        ({"schedule": "60 * * * *"}, "'60' is not a valid minute"),
        ({"schedule": "* * 0 * *"}, "'0' is not a valid day of the month"),
        ({"schedule": "* 5-3 * * *"}, "'5-3' is not a range of the hour"),
        ({"schedule": "*/0 * * * *"}, "is not a range of the minute"),
        ({"schedule": "*/x * * * *"}, "is not a range of the minute"),
        ({"schedule": "@daily"}, "needs minute"),
        ({"schedule": ", * * * *"}, "'' is not a valid minute"),
        ({"duration": "1 hour"}, "duration: "),
        ({"duration": "0s"}, "more than 0 and at most 168h"),
        ({"duration": "169h"}, "more than 0 and at most 168h"),
        ({"duration": "9" * 60 + "h"}, "duration"),
        ({"timeZone": "Mars/Olympus"}, "timeZone 'Mars/Olympus'"),
        ({"timeZone": "../../etc/passwd"}, "timeZone"),
        ({"timeZone": "/etc/passwd"}, "timeZone"),
        ({"timeZone": "Europe"}, "timeZone"),
    ],
)
def test_wrong_window_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(WindowError, match=message):
        Window.parse({"schedule": "0 0 * * *", "duration": "1h", **given})


@given(
    minute=st.integers(0, 59),
    hour=st.integers(0, 23),
    day=st.integers(0, 6),
    length=st.integers(1, 7 * 24 * 60),
    now=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),
)
def test_window_is_open_from_each_start_on(minute: int, hour: int, day: int, length: int, now: datetime) -> None:
    one = window(f"{minute} {hour} * * {day}", f"{length}m", "America/New_York")
    start = one.next_start(now.replace(tzinfo=UTC))
    assert start is not None
    assert start > now.replace(tzinfo=UTC)
    assert one.is_open(start)
    assert one.is_open(start + timedelta(minutes=length) - timedelta(seconds=1))
