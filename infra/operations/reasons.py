"""The reasons in conditions that are not as wanted: the meaning and the remedy of each.

The tables are in reasons.md, of which docs/reference/reasons.md is generated. A test finds each reason in the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TABLES = Path(__file__).with_suffix(".md").read_text()
"""The tables in Markdown, one for each kind."""
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^()]*)\)")


@dataclass(frozen=True)
class Reason:
    """Reasons of one condition with the same meaning.

    Attributes:
        kind: The kind of the objects that have it.
        condition: The type of the condition; empty for several types.
        names: The reasons.
        meaning: The meaning, in Markdown; links are relative to docs/.
        remedy: The remedy, in Markdown; links are relative to docs/.
    """

    kind: str
    condition: str
    names: tuple[str, ...]
    meaning: str
    remedy: str

    @property
    def meaning_text(self) -> str:
        """The meaning as plain text."""
        return _plain(self.meaning)

    @property
    def remedy_text(self) -> str:
        """The remedy as plain text."""
        return _plain(self.remedy)

    def is_of(self, kind: str) -> bool:
        """Returns whether objects of this kind can have the reason."""
        return kind in self.kind.split(" or ") or (self.kind == "provider" and kind.endswith("Provider"))


def find(name: str) -> list[Reason]:
    """Returns the entries of a reason, ignoring case; none for an unknown reason."""
    return [reason for reason in REASONS if name.casefold() in map(str.casefold, reason.names)]


def find_for(kind: str, name: str, condition: str = "") -> Reason | None:
    """Returns the entry of a reason that a condition of an object has; None for an unknown reason.

    Args:
        kind: The kind of the object.
        name: The reason.
        condition: The type of the condition, to choose between several entries. A summary has the reason of another.
    """
    found = [reason for reason in REASONS if name in reason.names and reason.is_of(kind)]
    return next((reason for reason in found if reason.condition == condition), next(iter(found), None))


def _parse(tables: str) -> Iterator[Reason]:
    for section in tables.split("\n## ")[1:]:
        kind, _, _heads, _line, *rows = section.strip().splitlines()
        for row in rows:
            condition, names, meaning, remedy = row.strip("| ").split(" | ")
            several = tuple(name.strip("`") for name in names.split(", "))
            yield Reason(kind, condition.strip("`").replace("several", ""), several, meaning, remedy)


def _plain(markdown: str) -> str:
    """Returns the text with its links as `text (docs/page.md)`."""
    return _LINK.sub(r"\1 (docs/\2)", markdown)


REASONS = tuple(_parse(TABLES))
