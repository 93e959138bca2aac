"""A reason of a condition, with its meaning and its remedy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """Reasons of one condition with the same meaning.

    Attributes:
        kind: The kind of the objects that have it.
        condition: The type of the condition; empty for several types.
        names: The reasons.
        meaning: The meaning, in Markdown.
        remedy: The remedy, in Markdown.
        page: The page in docs/ whose tables have it; empty if none has.
    """

    kind: str
    condition: str
    names: tuple[str, ...]
    meaning: str
    remedy: str
    page: str = ""
