"""Releases in a folder, such as a mounted volume or a release author's own: `/<folder>` or `file:///<folder>`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from shared.download import CHUNK, File, ReleaseNotFound, SourceError
from shared.download.access import Access

from .port import SourceType, SourceUrl, UnusableUrl

_FILE_URL = re.compile(r"file:(?://(?:localhost)?)?(/[^/].*)")


@dataclass(frozen=True, slots=True)
class FolderSource:
    """The releases in `<root>/<tag>/` or `<root>/cluster-stacks/<tag>/`.

    Folders inside a release are left out. Links may point within their release, as in mounted ConfigMaps; links that
    lead out of it, and files that are not regular, are refused.
    """

    root: Path

    def fetch(self, tag: str) -> Iterator[File]:
        """See `Source.fetch`."""
        with _os_errors(f"release {tag!r} in {self.root}"):
            self._check()
            folder = self._folder(tag)
            for path in sorted(folder.iterdir()):
                target = _inside(path, folder)
                if not target.is_dir():
                    with _open_regular(target) as stream:
                        yield File(path.name, _chunks(stream, path), os.fstat(stream.fileno()).st_size)

    def list(self) -> Sequence[str]:
        """See `Source.list`."""
        with _os_errors(f"the releases in {self.root}"):
            self._check()
            folders = [parent.iterdir() for parent in self._parents() if parent.is_dir()]
            return sorted({path.name for paths in folders for path in paths if self._offers(path)})

    def _check(self) -> None:
        """Raises `SourceError` if the folder is missing, because a missing mount must not look like an empty folder."""
        if not self.root.is_dir():
            raise SourceError(f"release source {self.root}: the folder does not exist", transient=True)

    def _parents(self) -> tuple[Path, Path]:
        return self.root, self.root / "cluster-stacks"

    def _offers(self, path: Path) -> bool:
        """Returns whether the path may be the folder of a release."""
        return path.is_dir() and not path.name.startswith(".") and path not in self._parents()

    def _folder(self, tag: str) -> Path:
        if not tag or tag in {".", ".."} or "/" in tag or "\0" in tag:
            raise ReleaseNotFound(tag, normpath(self.root))
        for parent in self._parents():
            if (path := parent / tag).is_dir():
                return _inside(path, self.root.resolve())
        raise ReleaseNotFound(tag, normpath(self.root), self.list())


@contextmanager
def _os_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(f"cannot read {what}: {error}", transient=True) from error


def _inside(path: Path, folder: Path) -> Path:
    """Returns the target of `path`, which must be in `folder` (a resolved path)."""
    try:
        target = path.resolve(strict=True)
    except RuntimeError as error:
        raise SourceError(f"{path} is a loop of links", transient=False) from error
    if not target.is_relative_to(folder):
        raise SourceError(f"{path} leads out of {folder}", transient=False)
    return target


def _open_regular(target: Path) -> BinaryIO:
    """Opens a regular file, without following links and without waiting for a pipe."""
    if not target.is_file():
        raise SourceError(f"{target} is not a regular file", transient=False)
    return open(os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def _chunks(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    with _os_errors(str(path)):
        while chunk := stream.read(CHUNK):
            yield chunk


def _open(url: SourceUrl, _access: Access) -> FolderSource:
    if not url.trusted:
        raise SourceError("only the setting RELEASE_SOURCE may name a folder", transient=False)
    if file := _FILE_URL.fullmatch(url.text):
        return FolderSource(Path(unquote(file[1])))
    if url.text and not url.scheme:
        return FolderSource(Path(url.text))
    raise UnusableUrl("is not of the form file:///<folder>")


SOURCE_TYPE = SourceType(("file", ""), _open)
