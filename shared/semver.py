"""Semantic versions with an optional `v`, as Kubernetes parses them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import total_ordering

_NUMBER = r"(?:0|[1-9]\d*)"
_IDENTIFIER = rf"(?:{_NUMBER}|\d*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"v?({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


@total_ordering
@dataclass(frozen=True)
class Version:
    """A semantic version without build metadata (`+...`), which has no rank."""

    major: int
    minor: int
    patch: int
    prerelease: str = ""

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Version):
            return NotImplemented
        return self._rank() < other._rank()

    def __str__(self) -> str:
        return f"v{self.major}.{self.minor}.{self.patch}" + (f"-{self.prerelease}" if self.prerelease else "")

    @property
    def series(self) -> tuple[int, int]:
        """Major and minor: the release series."""
        return self.major, self.minor

    def _rank(self) -> tuple[object, ...]:
        """Returns the sort key: releases follow pre-releases, numeric identifiers precede others (semver.org, 11)."""
        parts = [
            (0, int(part), "") if part.isdecimal() else (1, 0, part) for part in self.prerelease.split(".") if part
        ]
        return self.major, self.minor, self.patch, not self.prerelease, parts


def parse(text: str) -> Version:
    """Parses a semantic version with all three numbers. Raises `ValueError`."""
    match = _VERSION.fullmatch(text) if len(text) < 200 else None
    if match is None:
        raise ValueError(f'could not parse "{text[:60]}" as version, must be one such as v1.2.3')
    major, minor, patch = (int(match[number]) for number in (1, 2, 3))
    return Version(major, minor, patch, match[4] or "")


def try_parse(text: str) -> Version | None:
    """Parses a semantic version; None if the text is not one."""
    try:
        return parse(text)
    except ValueError:
        return None


def highest(texts: Iterable[str]) -> str:
    """Returns the highest version as written. Raises `ValueError` without texts, or for a text that is no version."""
    return max(texts, key=parse)
