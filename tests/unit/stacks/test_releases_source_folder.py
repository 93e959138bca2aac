"""Releases in a folder (`shared.releases.sources.folder`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.download import ReleaseNotFound, SourceError
from shared.download.ingest import MIB, IngestLimits, ingest
from shared.releases.sources.folder import FolderSource

TAG = "docker-ferrol-1-27-v1"


def _fetch(root: Path, tag: str = TAG) -> dict[str, bytes]:
    return {file.name: file.data for file in ingest(FolderSource(root).fetch(tag), IngestLimits())}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "root" / TAG
    folder.mkdir(parents=True)
    (folder / "metadata.yaml").write_text("a")
    return folder


@pytest.mark.parametrize("below", ["", "cluster-stacks"])
def test_release_is_read_from_either_folder_layout(tmp_path: Path, below: str) -> None:
    folder = tmp_path / below / TAG
    (folder / "unpacked-chart").mkdir(parents=True)
    (folder / "metadata.yaml").write_bytes(b"meta")
    (folder / "big.tgz").write_bytes(bytes(3 * MIB))
    assert _fetch(tmp_path) == {"metadata.yaml": b"meta", "big.tgz": bytes(3 * MIB)}
    assert FolderSource(tmp_path).list() == [TAG]


def test_list_is_sorted_and_has_both_folder_layouts(tmp_path: Path) -> None:
    for path in ("b", "a", ".git", "cluster-stacks/c", "cluster-stacks/a"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "file").touch()
    assert FolderSource(tmp_path).list() == ["a", "b", "c"]


@pytest.mark.parametrize("act", [lambda source: source.list(), lambda source: list(source.fetch(TAG))])
def test_missing_folder_is_an_error_not_an_empty_source(tmp_path: Path, act: Callable[[FolderSource], object]) -> None:
    (tmp_path / "file").touch()
    for root in (tmp_path / "nope", tmp_path / "file"):
        with pytest.raises(SourceError, match=f"{root}: the folder does not exist") as caught:
            act(FolderSource(root))
        assert not isinstance(caught.value, ReleaseNotFound)


@pytest.mark.parametrize("tag", ["nope", "", ".", "..", "../root", f"../root/{TAG}", "a\0b", "/etc", "file"])
def test_absent_release_is_not_found(folder: Path, tag: str) -> None:
    (folder.parent / "file").touch()
    with pytest.raises(ReleaseNotFound) as caught:
        _fetch(folder.parent, tag)
    assert not caught.value.transient


def test_links_within_the_release_are_followed(folder: Path) -> None:
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
def test_links_out_of_the_release_and_special_files_are_refused(folder: Path, add: Callable[[Path], None]) -> None:
    add(folder)
    with pytest.raises(SourceError) as caught:
        _fetch(folder.parent)
    assert not caught.value.transient
    assert str(folder / "b") in str(caught.value)


def test_release_folder_that_links_out_of_the_root_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (folder.parent / "docker-ferrol-1-27-v2").symlink_to(tmp_path / "outside")
    with pytest.raises(SourceError, match="leads out of"):
        _fetch(folder.parent, "docker-ferrol-1-27-v2")


def test_root_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("root")
    assert _fetch(tmp_path / "link") == {"metadata.yaml": b"a"}


def test_file_deleted_during_the_fetch_is_a_transient_error(folder: Path) -> None:
    (folder / "gone").symlink_to("nowhere")
    with pytest.raises(SourceError) as caught:
        _fetch(folder.parent)
    assert caught.value.transient


def test_file_that_grows_during_the_fetch_is_a_transient_error(folder: Path) -> None:
    (folder / "metadata.yaml").write_bytes(bytes(10))
    files = FolderSource(folder.parent).fetch(TAG)
    file = next(files)
    with (folder / "metadata.yaml").open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(SourceError, match="14 bytes instead of 10") as caught:
        list(ingest([file], IngestLimits()))
    assert caught.value.transient
