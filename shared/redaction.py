"""Redacts secrets from texts for users and logs, such as passwords that a server quotes in an error."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote, quote_plus, urlsplit

MIN_LENGTH = 4
"""Shorter values, in characters, are not redacted, because they are no secrets and occur in any text."""

_MOST_VALUES: Final = 2_000
_MOST_CHARACTERS: Final = 1 << 20
"""The maximum of values, and of their characters in sum. A search for more takes seconds, so texts are withheld."""
WITHHELD: Final = "withheld, because there are too many confidential values to remove from it"

_ELLIPSES = ("…", " ... ")
"""The marks of truncation, in place of the missing part of a text."""
_TEXT_FIELDS = ("message", "error", "waiting")
"""Fields of a status that hold texts."""


def redact(text: str, values: Collection[str]) -> str:
    """Returns the text with "…" in place of the values; see `redactor` for several texts."""
    return redactor(values)(text)


def redactor(values: Collection[str]) -> Callable[[str], str]:
    """Returns the function that returns a text with "…" in place of the values.

    It finds a value as it is and as JSON, base64, `repr` and URLs encode it, even if the text ends or begins within it.
    With too many values it returns `WITHHELD` in place of any text.
    """
    kept = [value for value in values if _is_long_enough(value)]
    if len(kept) > _MOST_VALUES or sum(map(len, kept)) > _MOST_CHARACTERS:
        return lambda text: text and WITHHELD
    forms = sorted({form for value in kept for form in _forms(value) if _is_long_enough(form)}, key=len, reverse=True)
    return partial(_without, forms)


def _without(forms: Sequence[str], text: str) -> str:
    """Returns the text with "…" in place of the forms, the longest first."""
    for form in forms if _is_long_enough(text) else ():
        text = text.replace(form, "…")
        if form[:MIN_LENGTH] not in text and form[-MIN_LENGTH:] not in text:
            continue
        for ellipsis in _ELLIPSES:
            parts = text.split(ellipsis)
            for number in range(1, len(parts)):
                before, after = parts[number - 1 : number + 1]
                parts[number - 1] = before[: len(before) - _overlap(before, form, len(form) - 1)]
                parts[number] = after[_overlap(form, after, len(form) - 1) :]
            text = ellipsis.join(parts)
    return text


def redact_status(status: Any, redacted: Callable[[str], str]) -> Any:
    """Returns a status with its text fields redacted, at any depth; `redacted` is of `redactor`."""
    if isinstance(status, list):
        return [redact_status(entry, redacted) for entry in status]
    if not isinstance(status, dict):
        return status
    return {
        name: redacted(value) if name in _TEXT_FIELDS and isinstance(value, str) else redact_status(value, redacted)
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


def _overlap(text: str, following: str, most: int) -> int:
    """Returns how many characters, at most `most`, end `text` and begin `following`; 0 if fewer than `MIN_LENGTH`.

    The time is linear (Knuth, Morris, Pratt), because a value may have a million characters.
    """
    most = min(most, len(text), len(following))
    if following[:MIN_LENGTH] not in text[-most:] or most < MIN_LENGTH:
        return 0
    shorter = [
        0
    ]  # by length - 1: the longest proper beginning of `following` that also ends its first `length` letters
    length = 0
    for place, letter in enumerate(following[1:most] + text[-most:], 1):
        while length and (length == most or following[length] != letter):
            length = shorter[length - 1]
        length += following[length] == letter
        if place < most:
            shorter.append(length)
        elif place == most:  # the text begins
            length = int(following[0] == letter)
    return length if length >= MIN_LENGTH else 0
