"""Where releases come from: the port, and its first implementation, a folder.

A source is asked for the files of a tag and hands out streams. It is not trusted: names, sizes and digests are judged
where the files are taken in (`shared.releases.intake`), the same for all sources.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

CHUNK = 256 * 1024


class SourceError(Exception):
    """A source failed; `transient` says whether trying again may help."""

    def __init__(self, message: str, *, transient: bool) -> None:
        super().__init__(message)
        self.transient = transient


class ReleaseNotFound(SourceError):
    """The source is fine and has no such release, or not yet."""

    def __init__(self, tag: str, where: str) -> None:
        super().__init__(f"no release {tag!r} in {where}", transient=False)
        self.tag = tag


@dataclass(frozen=True, slots=True)
class File:
    """One file of a release, to be read once.

    `size` in bytes and `digest` (sha256, hexadecimal) are what the source promises, None if it does not say; what
    arrives must match.
    """

    name: str
    chunks: Iterable[bytes]
    size: int | None = None
    digest: str | None = None


class Source(Protocol):
    """Port to release assets: a folder here; GitHub, OCI registries and HTTP have the same two questions."""

    def fetch(self, tag: str) -> Iterator[File]:
        """The files of a release (dash form), each to be consumed before the next is taken.

        Raises `ReleaseNotFound` or `SourceError`, at the call or at any step of the iteration.
        """
        ...

    def list(self) -> Sequence[str]:
        """Names of all releases on offer, sorted; may hold foreign names. Raises `SourceError`."""
        ...


@dataclass(frozen=True, slots=True)
class FolderSource:
    """Releases in `<root>/<tag>/` or `<root>/cluster-stacks/<tag>/`.

    Regular files only; folders inside a release are passed over. Links may point within their release (mounted
    ConfigMaps are made of such links), anything that leaves it is refused.
    """

    root: Path

    def fetch(self, tag: str) -> Iterator[File]:
        """See `Source.fetch`."""
        try:
            folder = self._folder(tag)
            for path in sorted(folder.iterdir()):
                target = _inside(path, folder)
                if not target.is_dir():
                    with _open_regular(target, path) as stream:
                        yield File(path.name, _chunks(stream), os.fstat(stream.fileno()).st_size)
        except OSError as error:
            raise SourceError(
                f"cannot read release {tag!r} in {self.root}: {error}", transient=True
            ) from error

    def list(self) -> Sequence[str]:
        """See `Source.list`."""
        try:
            folders = [parent.iterdir() for parent in self._parents() if parent.is_dir()]
            return sorted({path.name for paths in folders for path in paths if self._offers(path)})
        except OSError as error:
            raise SourceError(f"cannot list releases in {self.root}: {error}", transient=True) from error

    def _parents(self) -> tuple[Path, Path]:
        return self.root, self.root / "cluster-stacks"

    def _offers(self, path: Path) -> bool:
        return path.is_dir() and not path.name.startswith(".") and path not in self._parents()

    def _folder(self, tag: str) -> Path:
        if not tag or tag in {".", ".."} or "/" in tag or "\0" in tag:
            raise ReleaseNotFound(tag, str(self.root))
        for parent in self._parents():
            if (path := parent / tag).is_dir():
                return _inside(path, self.root.resolve())
        raise ReleaseNotFound(tag, str(self.root))


def from_url(url: str) -> Source:
    """The source at a URL: `file:///releases` or a plain path. Raises `SourceError` for any other scheme."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"} and parts.path:
        return FolderSource(Path(unquote(parts.path)))
    if url and not parts.scheme:
        return FolderSource(Path(url))
    raise SourceError(
        f"release source {_public(url)!r} is not supported: want file:///<folder> or a path", transient=False
    )


def from_env(env: Mapping[str, str] = os.environ) -> Source:
    """The source that `RELEASE_SOURCE` names. Raises `SourceError`."""
    if not (url := env.get("RELEASE_SOURCE")):
        raise SourceError("RELEASE_SOURCE is not set: want file:///<folder> or a path", transient=False)
    return from_url(url)


def _public(url: str) -> str:
    """Scheme and host only: the rest of a URL may hold a token."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}"


def _inside(path: Path, folder: Path) -> Path:
    """What `path` points to, if that is in `folder` (itself without links)."""
    target = path.resolve(strict=True)
    if not target.is_relative_to(folder):
        raise SourceError(f"{path} leads out of {folder}", transient=False)
    return target


def _open_regular(target: Path, path: Path) -> BinaryIO:
    """Open without following links and without waiting for a pipe's other end."""
    stream = open(os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise SourceError(f"{path} is not a regular file", transient=False)
    return stream


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK):
        yield chunk
