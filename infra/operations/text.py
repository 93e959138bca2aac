"""Formats foreign text, values and times for people."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any


def visible(text: str) -> str:
    """Returns the text with numbers in place of characters that are not printable, except ends of lines and tabs."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in text)


def plain(text: object, *, most: int = 500) -> str:
    """Returns one line of at most `most` printable characters. Text from a cluster can contain escape sequences."""
    line = visible(" ".join(str(text).split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def value(data: Any, *, most: int = 100) -> str:
    """Returns a JSON value in one line of at most `most` characters."""
    return plain(json.dumps(data, ensure_ascii=False), most=most)


def age(since: object, now: datetime) -> str:
    """Returns the age of a Kubernetes time, such as 3m12s; empty if `since` is not a time."""
    try:
        passed = now - datetime.fromisoformat(str(since))
    except (ValueError, TypeError):
        return ""
    return duration(passed.total_seconds())


def duration(seconds: float) -> str:
    """Returns seconds in the two largest units: 12s, 3m12s, 4h10m, 6d3h."""
    left = max(0, int(seconds))
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        parts.append((count, unit))
    while len(parts) > 1 and not parts[0][0]:
        parts.pop(0)
    return "".join(f"{count}{unit}" for count, unit in parts[:2])
