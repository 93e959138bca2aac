"""The port to release assets.

A source is asked for the files of a tag and hands out streams. It is not trusted: names, sizes and digests are
judged where the files are taken in (`shared.download.ingest`), the same for all sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from shared.download import File


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
