"""Reads the files of a source within limits, and checks names, sizes and digests: sources are not trusted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .errors import SourceError

CHUNK = 256 * 1024  # bytes
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class File:
    """One file that a source offers, to be read once.

    `size` in bytes and `digest` (sha256, hexadecimal) are the source's claims, which `ingest` checks; None without
    a claim.
    """

    name: str
    chunks: Iterable[bytes]
    size: int | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """Limits of one release: bytes of a file, bytes of all files, number of files. Memory holds one file at a time."""

    file: int = 64 * MIB
    release: int = 256 * MIB
    files: int = 256


@dataclass(frozen=True, slots=True)
class IngestedFile:
    """A complete and checked file; `digest` is the sha256 of `data` in hexadecimal."""

    name: str
    data: bytes
    digest: str


def ingest(files: Iterable[File], limits: IngestLimits) -> Iterator[IngestedFile]:
    """Reads the files one after another.

    Raises:
        SourceError: A name is unsafe or occurs twice, a limit is exceeded, or a file differs from its size or digest.
    """
    seen: set[str] = set()
    room = limits.release
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
        received = _read(file, min(limits.file, room))
        room -= len(received.data)
        yield received


def is_plain_name(name: str) -> bool:
    """Returns whether a name is that of a file in the current folder on any system: no path, printable characters."""
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
    return IngestedFile(file.name, b"".join(parts), sha256.hexdigest())
