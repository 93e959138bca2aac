"""Versions of providers: semantic versions as Kubernetes reads them, with an optional `v`, and which is the newest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import total_ordering

from .errors import ComponentsError
from .metadata import Metadata

_NUMBER = r"(?:0|[1-9]\d*)"
_IDENTIFIER = rf"(?:{_NUMBER}|\d*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"v?({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_PROBES = 5
"""How many of the newest are asked for before giving up: a tag may be there before its release."""


@total_ordering
@dataclass(frozen=True)
class Version:
    """Build metadata (`+...`) is left out: it has no rank."""

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
        return self.major, self.minor

    def _rank(self) -> tuple[object, ...]:
        """A release is higher than its pre-releases; numbers in these are lower than words (semver.org, 11)."""
        parts = [
            (0, int(part), "") if part.isdecimal() else (1, 0, part) for part in self.prerelease.split(".") if part
        ]
        return self.major, self.minor, self.patch, not self.prerelease, parts


def parse(text: str) -> Version:
    """Raises `ValueError` for what is no semantic version with all three numbers."""
    match = _VERSION.fullmatch(text) if len(text) < 200 else None
    if match is None:
        raise ValueError(f'could not parse "{text[:60]}" as version, want one such as v1.2.3')
    major, minor, patch = (int(match[number]) for number in (1, 2, 3))
    return Version(major, minor, patch, match[4] or "")


def try_parse(text: str) -> Version | None:
    try:
        return parse(text)
    except ValueError:
        return None


def highest(texts: Iterable[str]) -> str:
    """As it was written. Raises `ValueError` where there is none, or one is no version."""
    return max(texts, key=parse)


def downgrade(installed: str, wanted: str) -> str:
    """Why one must not go from one to the other; empty where one may. Patch versions may go down."""
    before, after = try_parse(installed), try_parse(wanted)
    if before is None or after is None or after.series >= before.series:
        return ""
    return (
        f"Downgrade is not supported from version {installed} to {wanted}: "
        f"only within v{before.major}.{before.minor} may a version go down"
    )


def latest(texts: Sequence[str], metadata: Callable[[str], Metadata | None], contracts: Sequence[str]) -> str:
    """The newest that is published and keeps the best contract there is.

    `metadata` is asked about few of them: None for one that is not published. `contracts`: the best first. Raises
    `ComponentsError` where nothing is published.
    """
    newest = _newest(texts, metadata)
    told = metadata(newest)
    for contract in contracts if told else ():
        series = {(entry.major, entry.minor) for entry in told.series if entry.contract == contract} if told else set()
        keeping = [text for text in texts if (found := try_parse(text)) and found.series in series]
        if keeping:
            return newest if newest in keeping else _newest(keeping, metadata)
    return newest


def _newest(texts: Iterable[str], metadata: Callable[[str], Metadata | None]) -> str:
    """Releases before pre-releases, each newest first."""
    known = [(found, text) for text in texts if (found := try_parse(text))]
    known.sort(key=lambda entry: (not entry[0].prerelease, entry[0]), reverse=True)
    for _, text in known[:_PROBES]:
        if metadata(text) is not None:
            return text
    tried = ", ".join(text for _, text in known[:_PROBES]) or "no version at all"
    raise ComponentsError(f"no published version was found, tried {tried}; set spec.version")
