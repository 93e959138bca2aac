"""Where releases come from: the port, and its first implementation, a folder.

A source is asked for the files of a tag and hands out streams. It is not trusted: names, sizes and digests are
judged where the files are taken in (`shared.releases.intake`), the same for all sources.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote

CHUNK = 256 * 1024  # bytes
_FILE_URL = re.compile(r"file:(?://(?:localhost)?)?(/[^/].*)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WANTED = "want file:///<folder> or a path"


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

    `size` in bytes and `digest` (sha256, hexadecimal) are what the source promises, None if it does not say;
    what arrives must match.
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

    Regular files only; folders inside a release are passed over. Links may point within their release, as in
    mounted ConfigMaps; anything that leaves it is refused.
    """

    root: Path

    def fetch(self, tag: str) -> Iterator[File]:
        """See `Source.fetch`."""
        with _os_errors(f"release {tag!r} in {self.root}"):
            folder = self._folder(tag)
            for path in sorted(folder.iterdir()):
                target = _inside(path, folder)
                if not target.is_dir():
                    with _open_regular(target) as stream:
                        yield File(path.name, _chunks(stream, path), os.fstat(stream.fileno()).st_size)

    def list(self) -> Sequence[str]:
        """See `Source.list`."""
        with _os_errors(f"the releases in {self.root}"):
            folders = [parent.iterdir() for parent in self._parents() if parent.is_dir()]
            return sorted({path.name for paths in folders for path in paths if self._offers(path)})

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
    if file := _FILE_URL.fullmatch(url):
        return FolderSource(Path(unquote(file[1])))
    scheme = _SCHEME.match(url)
    if url and not scheme:
        return FolderSource(Path(url))
    found = scheme[0] if scheme else ""  # the rest of a URL may hold a token
    raise SourceError(f"release source {found!r} is not supported: {_WANTED}", transient=False)


def from_env(env: Mapping[str, str] = os.environ) -> Source:
    """The source that `RELEASE_SOURCE` names. Raises `SourceError`."""
    if not (url := env.get("RELEASE_SOURCE")):
        raise SourceError(f"RELEASE_SOURCE is not set: {_WANTED}", transient=False)
    return from_url(url)


@contextmanager
def _os_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(f"cannot read {what}: {error}", transient=True) from error


def _inside(path: Path, folder: Path) -> Path:
    """What `path` points to, if that is in `folder` (itself without links)."""
    try:
        target = path.resolve(strict=True)
    except RuntimeError as error:
        raise SourceError(f"{path} is a loop of links", transient=False) from error
    if not target.is_relative_to(folder):
        raise SourceError(f"{path} leads out of {folder}", transient=False)
    return target


def _open_regular(target: Path) -> BinaryIO:
    """Open a file, if it is one, without following links any more and without ever waiting for a pipe."""
    if not target.is_file():
        raise SourceError(f"{target} is not a regular file", transient=False)
    return open(os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def _chunks(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    with _os_errors(str(path)):
        while chunk := stream.read(CHUNK):
            yield chunk
