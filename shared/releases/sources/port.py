"""The port to release assets.

A source is asked for the files of a tag and hands out streams. It is not trusted: names, sizes and digests are
judged where the files are taken in (`shared.releases.intake`), the same for all sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

CHUNK = 256 * 1024  # bytes
_LONGEST = 1000  # characters of a message: it may quote a stranger, and becomes part of a status


class SourceError(Exception):
    """A source failed; `transient` says whether trying again may help.

    `retry_after` is the source's own wish in seconds, where it made one.
    """

    def __init__(self, message: str, *, transient: bool, retry_after: float | None = None) -> None:
        super().__init__(message if len(message) <= _LONGEST else message[:_LONGEST] + "...")
        self.transient = transient
        self.retry_after = retry_after


class ReleaseNotFound(SourceError):
    """The source is fine and has no such release, or not yet."""

    def __init__(self, tag: str, where: str) -> None:
        super().__init__(f"no release {tag!r} in {where}", transient=False)
        self.tag = tag


@dataclass(frozen=True, slots=True)
class File:
    """One file of a release, to be read once.

    `size` in bytes and `digest` (sha256, hexadecimal) are what the source promises, None if it does not say;
    what arrives must match.
    """

    name: str
    chunks: Iterable[bytes]
    size: int | None = None
    digest: str | None = None


class Listing(tuple[str, ...]):
    """Names of releases; `problem` says why there may be more of them than these."""

    problem: str

    def __new__(cls, names: Iterable[str] = (), problem: str = "") -> Listing:
        listing = super().__new__(cls, names)
        listing.problem = problem
        return listing


class Source(Protocol):
    """Two questions, the same for folders, web servers, GitHub, OCI registries and object stores."""

    def fetch(self, tag: str) -> Iterator[File]:
        """The files of a release (dash form), each to be consumed before the next is taken.

        Raises `ReleaseNotFound` or `SourceError`, at the call or at any step of the iteration.
        """
        ...

    def list(self) -> Sequence[str]:
        """Names of all releases on offer, sorted; may hold foreign names. Raises `SourceError`.

        A `Listing` with a `problem` is not complete.
        """
        ...
