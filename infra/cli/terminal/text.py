"""Formats tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return ["   ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in rows]
