"""A reason of a condition, with its meaning and its remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
        page: The page in docs/ with a table of its own that has it, too; empty if none has.
    """

    kind: str
    condition: str
    names: tuple[str, ...]
    meaning: str
    remedy: str
    page: str = ""

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


def _plain(markdown: str) -> str:
    """Returns the text with its links as `text (docs/page.md)`."""
    return _LINK.sub(r"\1 (docs/\2)", markdown)
