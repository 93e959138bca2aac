"""Versions and ranges of versions of charts, as Helm has them (Masterminds/semver).

A version may have a `v`, and may lack minor and patch. A range is one or more groups of comparisons, separated by `||`:
a version is in the range if all comparisons of one group hold. A prerelease needs a group that names a prerelease.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from shared.semver import Version

LONGEST: Final = 256
"""Characters of a version or a range."""

_IDENTIFIER = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_PRERELEASE = rf"(?:-(?P<pre>{_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
_BUILD = r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
_VERSION = re.compile(rf"v?(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:\.(?P<patch>\d+))?{_PRERELEASE}{_BUILD}", re.ASCII)
_COMPARISON = re.compile(
    r"(?P<operator>!=|>=|=>|<=|=<|~>|[=><~^]|)"
    rf"v?(?P<major>\d+|[xX*])(?:\.(?P<minor>\d+|[xX*]))?(?:\.(?P<patch>\d+|[xX*]))?{_PRERELEASE}{_BUILD}",
    re.ASCII,
)
_AFTER_OPERATOR = re.compile(r"(?<=[=><~^])\s+(?=[\dvxX*])")
_HYPHEN = re.compile(r"(?<![^\s,|])([^\s,|]+)\s+-\s+([^\s,|]+)")
_WILD = frozenset({None, "x", "X", "*"})


class InvalidRange(ValueError):
    """A text is neither a version nor a range of versions."""


def parse_version(text: str) -> Version | None:
    """Returns the version that a text stands for, `v1.2` as 1.2.0; None for any other text."""
    match = _VERSION.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        return None
    major, minor, patch = (int(match[name] or 0) for name in ("major", "minor", "patch"))
    return Version(major, minor, patch, match["pre"] or "")


def is_exact(text: str) -> bool:
    """Returns whether a text is a single version, with all three numbers."""
    match = _VERSION.fullmatch(text) if len(text) <= LONGEST else None
    return match is not None and match["patch"] is not None


def newest(version: str, offered: Iterable[str]) -> str | None:
    """Returns the offered version to take, as it is written in `offered`; None if none matches.

    The same text comes first, then the newest version in the range. Texts that are no versions are left out.

    Args:
        version: A version, a range, or "" for the newest version that is no prerelease.
        offered: The versions of a repository.

    Raises:
        InvalidRange: `version` is neither a version nor a range.
    """
    matches = parse_range(version)
    texts = list(offered)
    if version and version in texts:
        return version
    found = [(parsed, text) for text in texts if (parsed := parse_version(text)) is not None and matches(parsed)]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def parse_range(text: str) -> Callable[[Version], bool]:
    """Returns the test whether a version is in a range. Raises `InvalidRange`."""
    if len(text) > LONGEST:
        raise InvalidRange(f"a version has more than {LONGEST} characters")
    groups = [_group(part, text) for part in _HYPHEN.sub(r">=\1, <=\2", text or "*").split("||")]
    return lambda version: any(group.matches(version) for group in groups)


@dataclass(frozen=True)
class _Comparison:
    """A version, the operator before it, and how many of its numbers are given (0 to 3)."""

    operator: str
    version: Version
    given: int

    def matches(self, version: Version) -> bool:
        """Returns whether a version satisfies the comparison, whatever prereleases the group allows."""
        bound, partial = self.version, self.given in (1, 2)
        match self.operator:
            case "!=":
                equal = self._agrees(version, self.given) and (
                    self.given == 1 or version.prerelease == bound.prerelease
                )
                return not equal if partial else version != bound
            case ">":
                return _numbers(version)[: self.given] > _numbers(bound)[: self.given] if partial else version > bound
            case "<":
                return version < bound
            case ">=" | "=>":
                return version >= bound
            case "<=" | "=<":
                places = self.given or 2
                return _numbers(version)[:places] <= _numbers(bound)[:places] if places < 3 else version <= bound
            case "^":
                return version >= bound and self._agrees(version, self._caret_places())
            case "" | "=" if self.given == 3:
                return version == bound
            case _:  # ~, or = with a part of a version
                places = 0 if self.given == 3 and not any(_numbers(bound)) else min(self.given, 2)
                return version >= bound and self._agrees(version, places)

    def _agrees(self, version: Version, places: int) -> bool:
        return _numbers(version)[:places] == _numbers(self.version)[:places]

    def _caret_places(self) -> int:
        """Returns how many numbers must stay the same: up to the first that is not 0, else all that are given."""
        numbers = _numbers(self.version)[: self.given or 3]
        return next((place for place, number in enumerate(numbers, 1) if number), len(numbers))


def _numbers(version: Version) -> tuple[int, int, int]:
    return version.major, version.minor, version.patch


@dataclass(frozen=True)
class _Group:
    """Comparisons that must all hold."""

    comparisons: tuple[_Comparison, ...]

    def matches(self, version: Version) -> bool:
        """Returns whether a version satisfies all comparisons."""
        allowed = not version.prerelease or any(one.version.prerelease for one in self.comparisons)
        return allowed and all(one.matches(version) for one in self.comparisons)


def _group(part: str, text: str) -> _Group:
    comparisons = []
    for listed in part.split(","):
        words = _AFTER_OPERATOR.sub("", listed).split()
        for word in words or [""]:
            match = _COMPARISON.fullmatch(word)
            if match is None:
                example = "such as 1.2.3, ^1.2 or >=1, <3"
                raise InvalidRange(f"{text[:100]!r} is neither a version nor a range of versions, {example}")
            numbers = [match["major"], match["minor"], match["patch"]]
            given = next((index for index, number in enumerate(numbers) if number in _WILD), 3)
            major, minor, patch = ([int(number) for number in numbers[:given]] + [0, 0, 0])[:3]
            comparisons.append(_Comparison(match["operator"], Version(major, minor, patch, match["pre"] or ""), given))
    return _Group(tuple(comparisons))
