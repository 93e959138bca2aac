"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from infra.generate.files import NOTICE

HEAD = f"<!-- {NOTICE} -->\n\n"


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table with these columns; a cell may have several lines, and any character."""
    head = f"| {' | '.join(names)} |\n|{'---|' * len(names)}\n"
    return head + "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in rows)


def plain(text: str) -> str:
    """Returns text whose `<`, outside of code, begins no HTML."""
    parts = text.split("`")
    return "`".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts))


def _cell(text: str) -> str:
    return plain(" ".join(text.split())).replace("|", "\\|")
