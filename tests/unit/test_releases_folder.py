"""`shared.releases.sources.folder`; `shared.download.ingest`: the guards."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shared.download import File, ReleaseNotFound, SourceError
from shared.download.ingest import MIB, Limits, ingest, is_plain_name
from shared.releases.sources.folder import FolderSource

TAG = "docker-ferrol-1-27-v1"


def _fetch(root: Path, tag: str = TAG) -> dict[str, bytes]:
    return {file.name: file.data for file in ingest(FolderSource(root).fetch(tag), Limits())}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "root" / TAG
    folder.mkdir(parents=True)
    (folder / "metadata.yaml").write_text("a")
    return folder


@pytest.mark.parametrize("below", ["", "cluster-stacks"])
def test_folder(tmp_path: Path, below: str) -> None:
    folder = tmp_path / below / TAG
    (folder / "unpacked-chart").mkdir(parents=True)
    (folder / "metadata.yaml").write_bytes(b"meta")
    (folder / "big.tgz").write_bytes(bytes(3 * MIB))
    assert _fetch(tmp_path) == {"metadata.yaml": b"meta", "big.tgz": bytes(3 * MIB)}
    assert FolderSource(tmp_path).list() == [TAG]


def test_list_is_sorted_and_spans_both_places(tmp_path: Path) -> None:
    for path in ("b", "a", ".git", "cluster-stacks/c", "cluster-stacks/a"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "file").touch()
    assert FolderSource(tmp_path).list() == ["a", "b", "c"]


@pytest.mark.parametrize("act", [lambda source: source.list(), lambda source: list(source.fetch(TAG))])
def test_a_folder_that_is_missing_is_not_an_empty_one(tmp_path: Path, act: Callable[[FolderSource], object]) -> None:
    (tmp_path / "file").touch()
    for root in (tmp_path / "nope", tmp_path / "file"):
        with pytest.raises(SourceError, match=f"{root}: the folder does not exist") as caught:
            act(FolderSource(root))
        assert not isinstance(caught.value, ReleaseNotFound)


@pytest.mark.parametrize("tag", ["nope", "", ".", "..", "../root", f"../root/{TAG}", "a\0b", "/etc", "file"])
def test_not_found(folder: Path, tag: str) -> None:
    (folder.parent / "file").touch()
    with pytest.raises(ReleaseNotFound) as caught:
        _fetch(folder.parent, tag)
    assert not caught.value.transient


def test_links_within_the_release_are_files(folder: Path) -> None:
    (folder / "..data").mkdir()
    (folder / "..data" / "values.yaml").write_text("v")
    (folder / "values.yaml").symlink_to("..data/values.yaml")
    assert _fetch(folder.parent) == {"metadata.yaml": b"a", "values.yaml": b"v"}


def _link_file(folder: Path) -> None:
    (folder.parent.parent / "secret").write_text("s")
    (folder / "b").symlink_to("../../secret")


def _link_sibling(folder: Path) -> None:
    (folder.parent / f"{TAG}0").mkdir()
    (folder.parent / f"{TAG}0" / "x").write_text("x")
    (folder / "b").symlink_to(f"../{TAG}0/x")


def _link_folder(folder: Path) -> None:
    (folder / "b").symlink_to("/etc")


def _link_loop(folder: Path) -> None:
    (folder / "b").symlink_to("b")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "b")


@pytest.mark.parametrize("add", [_link_file, _link_sibling, _link_folder, _link_loop, _pipe])
def test_only_regular_files_of_the_release(folder: Path, add: Callable[[Path], None]) -> None:
    add(folder)
    with pytest.raises(SourceError) as caught:
        _fetch(folder.parent)
    assert not caught.value.transient
    assert str(folder / "b") in str(caught.value)


def test_release_that_is_a_link_out_of_the_root(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (folder.parent / "docker-ferrol-1-27-v2").symlink_to(tmp_path / "outside")
    with pytest.raises(SourceError, match="leads out of"):
        _fetch(folder.parent, "docker-ferrol-1-27-v2")


def test_root_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("root")
    assert _fetch(tmp_path / "link") == {"metadata.yaml": b"a"}


def test_file_that_vanishes_is_worth_another_try(folder: Path) -> None:
    (folder / "gone").symlink_to("nowhere")
    with pytest.raises(SourceError) as caught:
        _fetch(folder.parent)
    assert caught.value.transient


def test_file_that_grows_while_it_is_read(folder: Path) -> None:
    (folder / "metadata.yaml").write_bytes(bytes(10))
    files = FolderSource(folder.parent).fetch(TAG)
    file = next(files)
    with (folder / "metadata.yaml").open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(SourceError, match="14 bytes instead of 10") as caught:
        list(ingest([file], Limits()))
    assert caught.value.transient


@pytest.mark.parametrize("name", ["metadata.yaml", "a-1-27-v0-sha.x.tgz", "..data", "with space", "ünïcode"])
def test_plain_names(name: str) -> None:
    assert is_plain_name(name)


HOSTILE = [
    *("", ".", "..", "/etc/passwd", "../x", "a/b", "a/", "a\\b", "..\\x", "C:\\x"),
    *("a\0b", "a\nb", "a\x1b[2J", "a\x7f", "a\u202eb", "\ud800", "a" * 256, "ü" * 128),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(name: str) -> None:
    assert not is_plain_name(name)
    with pytest.raises(SourceError, match="not a plain name") as caught:
        list(ingest([File(name, [b"x"])], Limits()))
    assert not caught.value.transient
    assert str(caught.value).isprintable()


def test_same_name_twice() -> None:
    with pytest.raises(SourceError, match="twice"):
        list(ingest([File("a", [b"1"]), File("a", [b"1"])], Limits()))


def test_promises_are_checked() -> None:
    digest = hashlib.sha256(b"ab").hexdigest()
    [received] = ingest([File("a", [b"a", b"", b"b"], size=2, digest=digest)], Limits())
    assert (received.name, received.data, received.digest) == ("a", b"ab", digest)
    for broken in (File("a", [b"a"], size=2), File("a", [b"ax"], digest=digest)):
        with pytest.raises(SourceError) as caught:
            list(ingest([broken], Limits()))
        assert caught.value.transient


def _zeros(size: int, given: list[int]) -> Iterator[bytes]:
    chunk = bytes(MIB)
    for _ in range(size // MIB):
        given[0] += MIB
        yield chunk


def test_endless_file_is_refused_early() -> None:
    given = [0]
    with pytest.raises(SourceError, match="too large"):
        list(ingest([File("zeros", _zeros(10 * 1024 * MIB, given))], Limits(file=8 * MIB)))
    assert given[0] <= 9 * MIB


def test_announced_size_is_refused_before_the_first_byte() -> None:
    given = [0]
    with pytest.raises(SourceError, match="too large"):
        list(ingest([File("zeros", _zeros(MIB, given), size=10 * 1024 * MIB)], Limits()))
    assert given == [0]


def test_sum_of_files() -> None:
    limits = Limits(file=4, release=6)
    assert len(list(ingest([File("a", [b"123"]), File("b", [b"456"])], limits))) == 2
    with pytest.raises(SourceError, match="'b' is too large: over 3 bytes"):
        list(ingest([File("a", [b"123"]), File("b", [b"4567"])], limits))


def test_number_of_files() -> None:
    with pytest.raises(SourceError, match="more than 3 files"):
        list(ingest((File(str(n), []) for n in range(10**9)), Limits(files=3)))
