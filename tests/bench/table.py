"""The figures of a step with its budgets beside them, as a table; a figure above its budget has an exclamation mark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Row:
    """The figures of a step, or their budgets (None: there is none).

    Attributes:
        seconds: Until what was asked for was reached.
        requests: Requests to all API servers; a watch is one.
        management: Those to the management API server.
        workload: Those to workload API servers.
        writes: Those that are no read.
        conflicts: Those that were answered with 409.
        cpu: CPU seconds of functions, forwarder and API servers.
        ours: CPU seconds of functions and forwarder.
        memory: MiB of functions and forwarder at their peak.
    """

    seconds: float | None = None
    requests: int | None = None
    management: int | None = None
    workload: int | None = None
    writes: int | None = None
    conflicts: int | None = None
    cpu: float | None = None
    ours: float | None = None
    memory: float | None = None


NONE = Row()
NOTHING = Row(requests=0, conflicts=0)
"""The budget of what changes nothing."""


class _Column(NamedTuple):
    field: str
    title: str
    width: int
    digits: int


_COLUMNS = (
    _Column("seconds", "s", 12, 2),
    _Column("requests", "requests", 13, 0),
    _Column("management", "management", 14, 0),
    _Column("workload", "workload", 14, 0),
    _Column("writes", "writes", 8, 0),
    _Column("conflicts", "409", 7, 0),
    _Column("cpu", "CPU s", 11, 1),
    _Column("ours", "ours", 10, 1),
    _Column("memory", "MiB", 10, 0),
)


class Table:
    """Rows that are printed at the end, under one head."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, title: str, figures: Row, budgets: Row = NONE) -> str:
        """Adds a row, and returns it as text."""
        cells = [
            _cell(getattr(figures, column.field), getattr(budgets, column.field), column.digits).rjust(column.width)
            for column in _COLUMNS
        ]
        self._lines.append(f"{title:<38}{''.join(cells)}")
        return self._lines[-1]

    def print(self) -> None:
        print(f"{'figure/budget (! above it)':<38}" + "".join(f"{column.title:>{column.width}}" for column in _COLUMNS))
        print("\n".join(self._lines), flush=True)


def _cell(figure: float | None, budget: float | None, digits: int) -> str:
    if figure is None:
        return ""
    text = f"{figure:,.{digits}f}"
    if budget is None:
        return text
    return f"{text}/{budget:,g}{'!' if round(figure, digits) > budget else ''}"
