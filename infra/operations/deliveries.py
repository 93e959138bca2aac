"""Reads the deliveries of events to functions from logs, whose lines `shared.runtime.logs` writes."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from functions import catalog

Outcome = Literal["done", "waiting", "transient", "refused", "failed"]

READ = 512 << 10
"""Bytes at the end of a log that are read."""
_LONGEST = 2_000
"""Characters of a line."""


@dataclass(frozen=True)
class Delivery:
    """One event at one function.

    Attributes:
        at: The time as the log has it.
        function: The function.
        event: The object and its change, or the type of the event.
        status: The HTTP status of the answer.
        detail: The rest of the line: pause until the next delivery, duration, context and message.
    """

    at: str
    function: str
    event: str
    status: int
    detail: str = ""

    @property
    def outcome(self) -> Outcome:
        """The meaning of the status."""
        match self.status:
            case 202:
                return "waiting"
            case 503:
                return "transient"
            case status if status >= 500:
                return "failed"
            case status if status >= 400:
                return "refused"
        return "done"


@dataclass
class FunctionSummary:
    """The deliveries to one function: their numbers by outcome, the newest one, and the newest failure."""

    function: str
    last: Delivery
    failure: Delivery | None = None
    counts: Counter[Outcome] = field(default_factory=Counter)


def read(log: Path, most: int = READ) -> list[Delivery]:
    """Returns the deliveries in the last `most` bytes of a log, the newest first; none if the log cannot be read."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            lines = file.read(most).decode(errors="replace").splitlines()
    except OSError:
        return []
    return list(reversed(list(parse(lines[1:] if size > most else lines))))


def parse(lines: Iterable[str]) -> Iterator[Delivery]:
    """Yields the deliveries among the lines of a log, in either format."""
    return (delivery for _, delivery in _parse_stamped(("", line) for line in lines))


def newest(stamped: Iterable[tuple[str, str]], most: int) -> list[Delivery]:
    """Returns the newest deliveries among lines with their times, the newest first."""
    return [delivery for _, delivery in heapq.nlargest(most, _parse_stamped(stamped), key=itemgetter(0))]


def summarize(deliveries: Iterable[Delivery]) -> list[FunctionSummary]:
    """Returns a summary for each function, by its name; the deliveries are the newest first."""
    found: dict[str, FunctionSummary] = {}
    for delivery in deliveries:
        summary = found.setdefault(delivery.function, FunctionSummary(delivery.function, delivery))
        summary.counts[delivery.outcome] += 1
        if summary.failure is None and delivery.status >= 400:
            summary.failure = delivery
    return sorted(found.values(), key=lambda summary: summary.function)


def _parse_stamped(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Delivery]]:
    functions = frozenset(catalog.names())
    for stamp, line in lines:
        found = _of_json(line) if line.startswith("{") else _of_text(line[:_LONGEST])
        if found and found.function in functions:
            yield stamp, found


def _of_text(line: str) -> Delivery | None:
    head, arrow, answer = line.partition(" -> ")
    words = head.split(" ", 4)
    status, _, detail = answer.partition(" ")
    if not arrow or len(words) < 5 or len(status) != 3 or not (status.isascii() and status.isdigit()):
        return None
    day, time, _level, function, event = words
    return Delivery(f"{day} {time.partition(',')[0]}", function, event, int(status), detail)


def _of_json(line: str) -> Delivery | None:
    try:
        entry = json.loads(line)
        return _delivery(entry) if isinstance(entry, dict) else None
    except (ValueError, TypeError, RecursionError):
        return None


def _delivery(entry: Mapping[str, Any]) -> Delivery | None:
    if not isinstance(entry.get("status"), int) or not isinstance(entry.get("function"), str):
        return None
    key = "/".join(str(part) for part in (entry.get("namespace"), entry.get("name")) if part)
    event = f"{entry.get('kind') or entry.get('type') or '-'} {key}".strip()
    again = f"again in {entry['again']:g}s " if isinstance(entry.get("again"), int | float) else ""
    detail = f"{again}{float(entry.get('seconds') or 0) * 1000:.1f}ms {entry.get('message') or ''}".strip()
    at = str(entry.get("time"))[:_LONGEST]
    return Delivery(at, entry["function"], event[:_LONGEST], entry["status"], detail[:_LONGEST])
