"""From a source's promises to bytes that may be kept: the guards against a careless or hostile source."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .errors import SourceError

CHUNK = 256 * 1024  # bytes
MIB = 1024 * 1024


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


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one release, in bytes and files. One file at a time is held in memory."""

    file: int = 64 * MIB
    release: int = 256 * MIB
    files: int = 256


@dataclass(frozen=True, slots=True)
class Received:
    """A file that arrived whole; `digest` is the sha256 of `data` in hexadecimal."""

    name: str
    data: bytes
    digest: str


def receive(files: Iterable[File], limits: Limits) -> Iterator[Received]:
    """Read files one after another within the limits. Raises `SourceError` as soon as a rule is broken."""
    seen: set[str] = set()
    room = limits.release
    for file in files:
        if not is_plain_name(file.name):
            raise SourceError(f"refused file name {file.name!r}: not a plain name", transient=False)
        if file.name in seen:
            raise SourceError(f"file {file.name!r} comes twice", transient=False)
        seen.add(file.name)
        if len(seen) > limits.files:
            raise SourceError(f"more than {limits.files} files", transient=False)
        received = _read(file, min(limits.file, room))
        room -= len(received.data)
        yield received


def is_plain_name(name: str) -> bool:
    """Whether a name denotes a file right here on any system: no path, no dot-dot, nothing invisible."""
    return (
        name not in {"", ".", ".."} and not set(name) & {"/", "\\"} and name.isprintable() and len(name.encode()) <= 255
    )


def _read(file: File, limit: int) -> Received:
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
    return Received(file.name, b"".join(parts), sha256.hexdigest())
