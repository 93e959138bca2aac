"""Reads the files of a source, which is not trusted: limits their sizes, and checks names, sizes and digests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .errors import SourceError


class Listing(tuple[str, ...]):
    """Names. `problem` is empty for a complete list, else it says why names may be missing."""

    problem: str

    def __new__(cls, names: Iterable[str] = (), problem: str = "") -> Listing:
        """Creates a listing of `names`, incomplete if `problem` is not empty."""
        listing = super().__new__(cls, names)
        listing.problem = problem
        return listing


CHUNK = 256 * 1024  # bytes
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class File:
    """A file that a source offers; `chunks` can be read once.

    The source reports `size` (bytes) and `digest` (sha256, hexadecimal) of the file, or None.
    `ingest` checks both. `signed`: the source has verified a signature of the digest.
    """

    name: str
    chunks: Iterable[bytes]
    size: int | None = None
    digest: str | None = None
    signed: bool = False


def declared_size(text: str) -> int | None:
    """Returns the size of a file in bytes as its server reports it; None if the server does not.

    Python refuses to parse thousands of digits; the first digits of such a number already exceed any limit.
    """
    return int(text[:18]) if text.isdecimal() else None


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """Limits of one release: bytes of each file, bytes of all files together, number of files."""

    file: int = 64 * MIB
    release: int = 256 * MIB
    files: int = 256


@dataclass(frozen=True, slots=True)
class IngestedFile:
    """A complete and checked file; `digest` is the sha256 of `data` in hexadecimal, `signed` comes from the `File`."""

    name: str
    data: bytes
    digest: str
    signed: bool = False


def ingest(files: Iterable[File], limits: IngestLimits) -> Iterator[IngestedFile]:
    """Yields the files with their content, one after another: only one is in memory at a time.

    Raises:
        SourceError: A name is unsafe or occurs twice, a limit is exceeded, or a file differs from its size or digest.
    """
    seen: set[str] = set()
    remaining = limits.release
    for file in files:
        if not is_plain_name(file.name):
            raise SourceError(
                f"file name {file.name!r} is refused: it is not a plain name without a path", transient=False
            )
        if file.name in seen:
            raise SourceError(f"file {file.name!r} occurs twice", transient=False)
        seen.add(file.name)
        if len(seen) > limits.files:
            raise SourceError(f"more than {limits.files} files", transient=False)
        received = _read(file, min(limits.file, remaining))
        remaining -= len(received.data)
        yield received


def is_plain_name(name: str) -> bool:
    """Returns whether a name, on any system, is a file name without a path; it must be printable, too."""
    return (
        name not in {"", ".", ".."} and not set(name) & {"/", "\\"} and name.isprintable() and len(name.encode()) <= 255
    )


def _read(file: File, limit: int) -> IngestedFile:
    too_large = SourceError(f"file {file.name!r} is too large: over {limit} bytes", transient=False)
    if file.size is not None and file.size > limit:
        raise too_large
    parts: list[bytes] = []
    size, sha256 = 0, hashlib.sha256()
    for chunk in file.chunks:
        size += len(chunk)
        if size > limit:
            raise too_large
        sha256.update(chunk)
        parts.append(chunk)
    if file.size is not None and size != file.size:
        raise SourceError(f"file {file.name!r} has {size} bytes instead of {file.size}", transient=True)
    if file.digest is not None and sha256.hexdigest() != file.digest:
        raise SourceError(f"file {file.name!r} does not match its digest {file.digest}", transient=True)
    return IngestedFile(file.name, b"".join(parts), sha256.hexdigest(), file.signed and file.digest is not None)
