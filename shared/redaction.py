"""Redacts secrets from texts for users and logs, such as passwords that a server quotes in an error."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

MIN_LENGTH = 4
"""Characters: shorter values are not redacted, as they are no secrets and occur in any text."""

_ELLIPSES = ("…", " ... ")
"""The marks that a truncated text has in place of the missing part."""
_TEXT_FIELDS = ("message", "error")
"""Fields of a status that hold texts."""


def redact(text: str, values: Collection[str]) -> str:
    """Returns the text with "…" in place of the values.

    Finds a value as it is and as JSON, base64, `repr` and URLs encode it, even if the text ends or begins within it.
    """
    forms = {form for value in filter(_is_long_enough, values) for form in _forms(value) if _is_long_enough(form)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "…")
        for ellipsis in _ELLIPSES:
            before, *rest = text.split(ellipsis)
            for after in rest:
                before = before[: len(before) - _overlap_at_end(before, form)] + ellipsis
                before += after[_overlap_at_start(after, form) :]
            text = before
    return text


def redact_status(status: Any, values: Collection[str]) -> Any:
    """Returns a status with the values redacted from its text fields, at any depth."""
    if isinstance(status, list):
        return [redact_status(entry, values) for entry in status]
    if not isinstance(status, dict):
        return status
    return {
        name: redact(value, values) if name in _TEXT_FIELDS and isinstance(value, str) else redact_status(value, values)
        for name, value in status.items()
    }


def redact_url(url: str) -> str:
    """Returns the URL for messages: without user, query and fragment, which may contain tokens."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a password with a slash in it
    except ValueError:
        return "(no URL)"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _is_long_enough(value: str) -> bool:
    return len(value) >= MIN_LENGTH


def _forms(value: str) -> set[str]:
    """Returns the texts in which the value may occur: as written and in each encoding."""
    escaped = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    for character in "<>&":  # Go's JSON encoder escapes these as well
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


def _overlap_at_end(text: str, value: str) -> int:
    """Returns how many characters at the end of `text` are the beginning of `value`; 0 if fewer than `MIN_LENGTH`."""
    lengths = range(len(value) - 1, MIN_LENGTH - 1, -1)
    return next((length for length in lengths if text.endswith(value[:length])), 0)


def _overlap_at_start(text: str, value: str) -> int:
    """Returns how many characters at the start of `text` are the end of `value`; 0 if fewer than `MIN_LENGTH`."""
    lengths = range(len(value) - 1, MIN_LENGTH - 1, -1)
    return next((length for length in lengths if text.startswith(value[-length:])), 0)
