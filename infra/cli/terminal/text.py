"""Formats values and tables for a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from infra.operations.text import plain


def value(data: Any, *, most: int = 100) -> str:
    """Returns a JSON value in one line of at most `most` characters."""
    return plain(json.dumps(data, ensure_ascii=False), most=most)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return ["   ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in rows]
