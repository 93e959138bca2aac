"""Parses durations in Go's format (`1h2m3s`, `10m0s`, `1.5s`), which Kubernetes objects use."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

_UNITS: Final = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "\u00b5s": Decimal("1e-6"),  # micro sign
    "\u03bcs": Decimal("1e-6"),  # Greek mu
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_PART = re.compile(rf"(?<![0-9.])([0-9]+(?:\.[0-9]*)?|\.[0-9]+)({'|'.join(_UNITS)})")
_WHOLE = re.compile(rf"[-+]?(?:0|(?:{_PART.pattern})+)")


def whole_seconds(text: str) -> int:
    """Returns a duration in seconds, rounded. Raises `ValueError`."""
    if len(text) > 64 or not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:64]!r} is not a duration such as 1h30m or 10s")
    total = sum((Decimal(number) * _UNITS[unit] for number, unit in _PART.findall(text)), Decimal(0))
    seconds = int(total.to_integral_value(ROUND_HALF_UP))
    return -seconds if text.startswith("-") else seconds
