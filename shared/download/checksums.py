"""Parses `SHA256SUMS`, the output of sha256sum."""

from __future__ import annotations

import re

SUMS = "SHA256SUMS"

_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](?:\./)?(.+)")


def parse(data: bytes) -> dict[str, str]:
    """Returns the sha256, in hexadecimal, of each file that is listed. Raises `ValueError` for any other text."""
    lines = [line for line in data.decode(errors="replace").splitlines() if line.strip()]
    matches = [_LINE.fullmatch(line) for line in lines]
    sums = {match[2]: match[1].lower() for match in matches if match}
    if not sums or None in matches or len(sums) < len(lines):
        raise ValueError(f"{SUMS} is not the output of sha256sum")
    return sums
