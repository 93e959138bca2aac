"""Values that must not be read in what is told, such as passwords that a server cites."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from .notice import Notice

SHORTEST = 4
"""Characters: shorter ones are no secrets, and are in every text."""

_WORDS = ("message", "error")
"""Fields of a status that are for people."""


def without(text: str, values: Collection[str]) -> str:
    """The text with "…" in their place; also for one that is cut off at its end."""
    for value in sorted(filter(_counts, values), key=len, reverse=True):
        text = text.replace(value, "…")
        if text.endswith("…"):
            text = text[: -_cut_off(text[:-1], value) - 1] + "…"
    return text


def in_status(status: Any, values: Collection[str]) -> Any:
    """Without them wherever the status has words."""
    if isinstance(status, list):
        return [in_status(entry, values) for entry in status]
    if not isinstance(status, dict):
        return status
    return {
        name: without(value, values) if name in _WORDS and isinstance(value, str) else in_status(value, values)
        for name, value in status.items()
    }


def in_notice(notice: Notice, values: Collection[str]) -> Notice:
    return replace(notice, message=without(notice.message, values))


def _counts(value: str) -> bool:
    return len(value) >= SHORTEST


def _cut_off(text: str, value: str) -> int:
    """How many characters of the value the text ends with; 0 for fewer than count."""
    lengths = range(len(value) - 1, SHORTEST - 1, -1)
    return next((length for length in lengths if text.endswith(value[:length])), 0)
