"""A chain of sources: which source a release comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.download import File, Listing, ReleaseNotFound, SourceError
from shared.releases.sources.folder import FolderSource
from shared.releases.sources.http import HttpSource
from shared.releases.sources.urls import SourceChain
from tests.support.http_server import HttpServer, files

DOWN = HttpSource("http://127.0.0.1:1")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[FolderSource, FolderSource]:
    for path, text in {"1/both": "first", "1/one": "first", "2/both": "second", "2/two": "second"}.items():
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "file").write_text(text)
    return FolderSource(tmp_path / "1"), FolderSource(tmp_path / "2")


def _text(source: SourceChain, tag: str) -> str:
    texts = [b"".join(file.chunks).decode() for file in source.fetch(tag)]
    assert len(texts) == 1
    return texts[0]


def test_release_comes_from_the_first_source_that_has_it(folders: tuple[FolderSource, FolderSource]) -> None:
    several = SourceChain(folders)
    assert [_text(several, tag) for tag in ("both", "one", "two")] == ["first", "first", "second"]
    assert several.list() == Listing(["both", "one", "two"])
    with pytest.raises(ReleaseNotFound, match=r"no release 'none' in any source: .*/1; .*/2"):
        _text(several, "none")


def test_failing_source_fails_the_chain(folders: tuple[FolderSource, FolderSource]) -> None:
    first, second = folders
    several = SourceChain((first, HttpSource("http://127.0.0.1:1"), second))
    tag = "docker-ferrol-1-27-v1"
    for folder in folders:
        (folder.root / tag).mkdir()
        (folder.root / tag / "file").write_text(folder.root.name)
    assert _text(several, tag) == "1"
    (first.root / tag / "file").unlink()
    (first.root / tag).rmdir()
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:1/.* does not answer") as caught:
        _text(several, tag)
    assert caught.value.transient


def test_failing_source_does_not_hide_releases_of_others_in_lists(folders: tuple[FolderSource, FolderSource]) -> None:
    listed = SourceChain((DOWN, *folders)).list()
    assert list(listed) == ["both", "one", "two"]
    assert isinstance(listed, Listing)
    assert "127.0.0.1:1" in listed.problem
    nested = SourceChain((SourceChain((DOWN, folders[0])), folders[1])).list()
    assert (list(nested), nested) == (["both", "one", "two"], listed)
    with HttpServer(files({})) as site, pytest.raises(SourceError, match="does not answer"):
        SourceChain((DOWN, HttpSource(site.url))).list()


@dataclass
class Broken:
    """Fails after its first file."""

    def fetch(self, tag: str) -> Iterator[File]:
        yield File("file", [b"broken"])
        raise ReleaseNotFound(tag, "half-way")

    def list(self) -> Sequence[str]:
        return ["both"]


def test_a_release_never_comes_from_two_sources(folders: tuple[FolderSource, FolderSource]) -> None:
    files = SourceChain((Broken(), *folders)).fetch("both")
    assert b"".join(next(files).chunks) == b"broken"
    with pytest.raises(ReleaseNotFound, match="half-way"):
        next(files)
