"""Draws the measured figures of docs/figures, beside the figures of another project, as SVG.

A file has a figure in each row, with its unit and one value for each project. Each row has its own scale, because the
units differ: its longest bar has the full length.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from infra.generate.files import NOTICE

FOLDER = Path(__file__).parents[2] / "docs" / "figures"
_COLORS = ("#326ce5", "#9aa5b1")
_LABELS, _LENGTH, _VALUES, _BAR, _ROW = 240, 300, 100, 13, 40


def pages() -> dict[str, str]:
    """Returns the text of each plot by its path in the project."""
    return {f"docs/figures/{path.stem}.svg": plot(path.read_text()) for path in sorted(FOLDER.glob("*.csv"))}


def plot(figures: str) -> str:
    """Returns the plot of figures in CSV with the columns `figure`, `unit`, and the names of two projects."""
    (_, _, *projects), *rows = csv.reader(figures.splitlines())
    height = _ROW * (len(rows) + 1)
    width = _LABELS + _LENGTH + _VALUES
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12">\n'
        f"<!-- {NOTICE} -->\n"
        f'<rect width="{width}" height="{height}" fill="white"/>\n'
    )
    return (
        head
        + "".join([*_legend(projects), *(line for at, row in enumerate(rows, 1) for line in _row(at, row))])
        + "</svg>\n"
    )


def _legend(projects: Sequence[str]) -> Iterator[str]:
    for number, (project, color) in enumerate(zip(projects, _COLORS, strict=True)):
        left = _LABELS + number * 100
        yield f'<rect x="{left}" y="10" width="{_BAR}" height="{_BAR}" fill="{color}"/>\n'
        yield f'<text x="{left + _BAR + 5}" y="21">{escape(project)}</text>\n'


def _row(at: int, row: Sequence[str]) -> Iterator[str]:
    figure, unit, *values = row
    top = at * _ROW
    yield f'<text x="{_LABELS - 10}" y="{top + _BAR + 4}" text-anchor="end">{escape(figure)}</text>\n'
    longest = max(map(float, values))
    for number, (value, color) in enumerate(zip(values, _COLORS, strict=True)):
        length = round(_LENGTH * float(value) / longest, 1) if longest else 0
        y = top + number * (_BAR + 1)
        yield f'<rect x="{_LABELS}" y="{y}" width="{length}" height="{_BAR}" fill="{color}"/>\n'
        yield f'<text x="{_LABELS + length + 5}" y="{y + _BAR - 2}">{escape(value)} {escape(unit)}</text>\n'
