"""Windows of time in which a rollout may change Clusters: a cron schedule, a duration and a time zone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from shared.components.durations import whole_seconds

_MONTHS = dict(
    zip(["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"], range(1, 13), strict=True)
)
_DAYS = dict(zip(["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"], range(7), strict=True))
_FIELDS: Final[tuple[tuple[str, int, int, Mapping[str, int]], ...]] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
LONGEST = 200
"""Characters of a schedule."""
_AHEAD = 8 * 366 + 1
"""Days in which each possible date comes, also the 29th of February."""
_LONGEST_WINDOW = timedelta(days=7)


class WindowError(ValueError):
    """A window that cannot be read; the message names the field."""


@dataclass(frozen=True)
class Window:
    """A window, which begins at each time of the schedule, in the time zone, and lasts for the duration."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    """Whether a date matches by its day of the month or by its day of the week; otherwise both have to match."""
    duration: timedelta
    zone: ZoneInfo

    @classmethod
    def parse(cls, window: Mapping[str, Any]) -> Window:
        """Parses an entry of `rolloutStrategy.windows`. Raises `WindowError`."""
        text, zone = str(window.get("schedule") or ""), str(window.get("timeZone") or "UTC")
        parts = text.upper().split() if len(text) <= LONGEST else []
        if len(parts) != len(_FIELDS):
            raise WindowError(
                f"schedule {text[:LONGEST]!r} needs minute, hour, day, month and weekday, as in 0 22 * * 1-5"
            )
        values = [_values(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]
        try:
            duration = timedelta(seconds=whole_seconds(str(window.get("duration") or "")))
        except (ValueError, OverflowError) as error:
            raise WindowError(f"duration: {error}") from error
        if not timedelta(0) < duration <= _LONGEST_WINDOW:
            raise WindowError("duration must be more than 0 and at most 168h")
        try:
            found = ZoneInfo(zone)
        except (ValueError, OSError, KeyError) as error:
            raise WindowError(
                f"timeZone {zone[:64]!r} is not a name in the IANA time zone database, such as Europe/Berlin"
            ) from error
        either = not (parts[2].startswith("*") or parts[4].startswith("*"))
        minutes, hours, days, months, weekdays = values
        return cls(minutes, hours, days, months, frozenset(day % 7 for day in weekdays), either, duration, found)

    def is_open(self, now: datetime) -> bool:
        """Returns whether the window is open at a time."""
        today = now.astimezone(self.zone).date()
        for back in range(-1, self.duration.days + 3):
            for start in reversed(self._starts(today - timedelta(days=back))):
                if start <= now:
                    return now < start + self.duration
        return False

    def next_start(self, now: datetime) -> datetime | None:
        """Returns the next beginning after a time, in UTC; None if there is none, as for the 30th of February."""
        today = now.astimezone(self.zone).date()
        for ahead in range(-1, _AHEAD):
            for start in self._starts(today + timedelta(days=ahead)):
                if start > now:
                    return start
        return None

    def _starts(self, day: date) -> list[datetime]:
        """Returns the beginnings on a local date, in UTC and in order. A local time that is skipped begins later."""
        if not self._includes(day):
            return []
        local = (
            datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone)
            for hour in self.hours
            for minute in self.minutes
        )
        return sorted(one.astimezone(UTC) for one in local)

    def _includes(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        matches = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return any(matches) if self.either else all(matches)


def opening(windows: Iterable[Mapping[str, Any]], now: datetime) -> tuple[bool, datetime | None, list[str]]:
    """Returns whether a window is open, when the next one begins, and what is wrong. A wrong window is never open."""
    parsed: list[Window] = []
    problems: list[str] = []
    for one in windows:
        try:
            parsed.append(Window.parse(one))
        except WindowError as error:
            problems.append(str(error))
    starts = [start for window in parsed if (start := window.next_start(now))]
    return any(window.is_open(now) for window in parsed), min(starts, default=None), problems


def _values(text: str, name: str, low: int, high: int, names: Mapping[str, int]) -> frozenset[int]:
    return frozenset(value for part in text.split(",") for value in _part(part, name, low, high, names))


def _part(text: str, name: str, low: int, high: int, names: Mapping[str, int]) -> Iterator[int]:
    span, slash, step = text.partition("/")
    first, dash, last = span.partition("-")

    def number(digits: str) -> int:
        found = names.get(digits)
        if found is None:
            if not (digits.isascii() and digits.isdecimal() and len(digits) <= 2 and low <= int(digits) <= high):
                raise WindowError(f"schedule: {digits[:20]!r} is not a valid {name} ({low} to {high})")
            found = int(digits)
        return found

    if span == "*":
        begin, end = low, high
    else:
        begin = number(first)
        end = number(last) if dash else high if slash else begin
    every = int(step) if slash and step.isascii() and step.isdecimal() and len(step) <= 2 else 0 if slash else 1
    if every < 1 or end < begin:
        raise WindowError(f"schedule: {text[:20]!r} is not a range of the {name}")
    yield from range(begin, end + 1, every)
