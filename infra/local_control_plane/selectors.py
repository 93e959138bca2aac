"""Selectors of Kubernetes versions, in the language of setup-envtest."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from shared import semver
from shared.semver import Version

SYNTAX = "1.36, 1.36.x, 1.36.3, ~1.36.2 (that patch or a later one), <1.36.2, <=1.36.2, latest, latest-on-disk"

ANY = ("latest", "latest-on-disk")
"""The selectors that match every version."""

_NUMBER = r"0|[1-9]\d{0,5}"
_SELECTOR = re.compile(rf"(~|<=|<|)v?({_NUMBER})\.({_NUMBER})(?:\.({_NUMBER}|x|\*))?(!?)", re.ASCII)


_FIRST = Version(0, 0, 0)
_LAST = Version(1_000_000, 0, 0)


@dataclass(frozen=True)
class Selector:
    """A range of versions.

    Attributes:
        text: The selector as it was written.
        lowest: The first version of the range.
        below: The first version above the range.
        ask: Whether to look for a newer version even if an installed one matches (`!`, `latest`).
        on_disk: Whether only installed versions count (`latest-on-disk`).
    """

    text: str
    lowest: Version = _FIRST
    below: Version = _LAST
    ask: bool = False
    on_disk: bool = False

    def matches(self, version: Version) -> bool:
        """Returns whether a version is in the range."""
        return self.lowest <= version < self.below

    def newest(self, versions: Iterable[Version]) -> Version | None:
        """Returns the newest of the versions that match, None if none does."""
        return max(filter(self.matches, versions), default=None)


def parse_version(text: str) -> Version:
    """Parses a released version, such as "v1.36.3". Raises ValueError, also for pre-releases."""
    version = semver.try_parse(text)
    if version is None or version.prerelease or "+" in text:
        raise ValueError(f"{text[:60]!r} is not a version such as v1.36.3")
    return version


def parse_selector(text: str) -> Selector:
    """Parses a selector. Raises ValueError with the syntax."""
    if text in ANY:
        return Selector(text, ask=text == "latest", on_disk=text == "latest-on-disk")
    match = _SELECTOR.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:60]!r} selects no version; known are {SYNTAX}, and `!` after it requests newer ones")
    operator, patch, ask = match[1], match[4] or "x", bool(match[5])
    major, minor = int(match[2]), int(match[3])
    next_minor = Version(major, minor + 1, 0)
    if patch in "x*":
        lowest, below = Version(major, minor, 0), next_minor
    else:
        lowest, below = Version(major, minor, int(patch)), Version(major, minor, int(patch) + 1)
    if operator == "~":
        below = next_minor
    elif operator == "<":
        lowest, below = _FIRST, lowest
    elif operator == "<=":
        lowest = _FIRST
    return Selector(text, lowest, below, ask)
