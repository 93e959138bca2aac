"""Texts without the values that nobody may read in them, such as passwords that a server cites."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection
from urllib.parse import quote, quote_plus

SHORTEST = 4
"""Characters: shorter ones are no secrets, and are in every text."""

_CUTS = ("…", " ... ")
"""What stands where a text was cut, at its end or within."""


def without(text: str, values: Collection[str]) -> str:
    """The text with "…" in their place, as they are and in the forms in which texts quote and requests carry them.

    Also where the text was cut in the middle of one.
    """
    forms = {form for value in filter(_counts, values) for form in _forms(value) if _counts(form)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "…")
        for cut in _CUTS:
            before, *rest = text.split(cut)
            for after in rest:
                before = before[: len(before) - _ends_with(before, form)] + cut + after[_begins_with(after, form) :]
            text = before
    return text


def _counts(value: str) -> bool:
    return len(value) >= SHORTEST


def _forms(value: str) -> set[str]:
    escaped = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    for character in "<>&":  # Go escapes these, too
        escaped |= {form.replace(character, f"\\u{ord(character):04x}") for form in escaped}
    data = value.encode(errors="surrogatepass")
    encoded = {base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()}
    on_one_line = " ".join(value.split())
    return {
        value,
        on_one_line,
        repr(value)[1:-1],
        *escaped,
        *encoded,
        quote(data, safe=""),
        quote(data),
        quote_plus(data),
    }


def _ends_with(text: str, value: str) -> int:
    """How many characters of the value's beginning the text ends with; 0 for fewer than count."""
    lengths = range(len(value) - 1, SHORTEST - 1, -1)
    return next((length for length in lengths if text.endswith(value[:length])), 0)


def _begins_with(text: str, value: str) -> int:
    lengths = range(len(value) - 1, SHORTEST - 1, -1)
    return next((length for length in lengths if text.startswith(value[-length:])), 0)
