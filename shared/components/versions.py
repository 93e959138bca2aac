"""Versions of providers: semantic versions with an optional `v`, as Kubernetes parses them; the latest of several."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import total_ordering

from .errors import ComponentsError
from .metadata import ProviderMetadata

_NUMBER = r"(?:0|[1-9]\d*)"
_IDENTIFIER = rf"(?:{_NUMBER}|\d*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"v?({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_PROBES = 5
"""The number of newest versions to probe: a tag may exist before its release."""


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
    """Returns the highest version as written. Raises `ValueError` for no texts, or a text that is not a version."""
    return max(texts, key=parse)


def downgrade_refusal(installed: str, requested: str) -> str:
    """Returns why a provider must not be downgraded; empty if it may: within a release series, or upwards."""
    before, after = try_parse(installed), try_parse(requested)
    if before is None or after is None or after.series >= before.series:
        return ""
    return (
        f"Downgrade is not supported from version {installed} to {requested}: "
        f"only within v{before.major}.{before.minor} may a version go down"
    )


def latest(texts: Sequence[str], metadata: Callable[[str], ProviderMetadata | None], contracts: Sequence[str]) -> str:
    """Returns the newest published version with the best contract.

    Args:
        texts: The versions to choose from; texts that are not versions are ignored.
        metadata: Returns the metadata.yaml of a version, None if it is not published. Called for few versions.
        contracts: The supported contracts, the best first.

    Raises:
        ComponentsError: None of the newest versions is published.
    """
    newest = _newest(texts, metadata)
    found_metadata = metadata(newest)
    known_series = found_metadata.series if found_metadata else ()
    for contract in contracts:
        series = {(one.major, one.minor) for one in known_series if one.contract == contract}
        keeping = [text for text in texts if (found := try_parse(text)) and found.series in series]
        if keeping:
            return newest if newest in keeping else _newest(keeping, metadata)
    return newest


def _newest(texts: Iterable[str], metadata: Callable[[str], ProviderMetadata | None]) -> str:
    """Returns the newest published version; releases come before pre-releases."""
    known = [(found, text) for text in texts if (found := try_parse(text))]
    known.sort(key=lambda entry: (not entry[0].prerelease, entry[0]), reverse=True)
    for _, text in known[:_PROBES]:
        if metadata(text) is not None:
            return text
    tried = ", ".join(text for _, text in known[:_PROBES]) or "no version at all"
    raise ComponentsError(f"no published version was found, tried {tried}; set spec.version")
