"""Selectors of versions, and the store that they select from."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.cli.commands import binaries
from infra.local_control_plane import archives, store
from infra.local_control_plane.binaries import EXECUTABLES, BinaryNotFound, this_platform
from infra.local_control_plane.modules import module_of
from infra.local_control_plane.selectors import parse_selector, parse_version
from shared.semver import Version
from tests.support.http_server import HttpServer, Request, Response

SCRIPT = b"#!/bin/sh\necho envtest\n"
BOTH = {"envtest/etcd": SCRIPT, "envtest/kube-apiserver": SCRIPT, "envtest/kubectl": SCRIPT, "envtest/README": b"no"}
PINNED = parse_version(module_of("kube-apiserver").version)


@pytest.mark.parametrize(
    ("selector", "matching", "others"),
    [
        ("1.16", "1.16.0 1.16.99", "1.15.9 1.17.0 2.16.0"),
        ("v1.16", "1.16.0", "1.17.0"),
        ("1.16.x", "1.16.0 1.16.99", "1.15.9 1.17.0"),
        ("1.16.*!", "1.16.0 1.16.99", "1.15.9 1.17.0"),
        ("1.16.3", "1.16.3", "1.16.2 1.16.4"),
        ("~1.16", "1.16.0 1.16.9", "1.15.9 1.17.0"),
        ("~1.16.x", "1.16.0 1.16.9", "1.15.9 1.17.0"),
        ("~1.16.3", "1.16.3 1.16.9", "1.16.2 1.17.0"),
        ("<1.16.3", "0.16.3 1.15.3 1.16.2", "1.16.3 1.17.3 2.16.3"),
        ("<=1.16.3", "0.16.3 1.15.3 1.16.3", "1.16.4 1.17.3 2.16.3"),
        ("<1.16", "1.15.9", "1.16.0"),
        ("<=1.16", "1.16.9", "1.17.0"),
        ("latest", "0.0.0 1.36.3 9.9.9", ""),
        ("latest-on-disk", "0.0.0 1.36.3 9.9.9", ""),
    ],
)
def test_selector_matches_a_range_of_versions(selector: str, matching: str, others: str) -> None:
    parsed = parse_selector(selector)
    assert [parsed.matches(parse_version(text)) for text in matching.split()] == [True] * len(matching.split())
    assert [parsed.matches(parse_version(text)) for text in others.split()] == [False] * len(others.split())


@pytest.mark.parametrize(
    ("selector", "ask", "on_disk"),
    [("1.16", False, False), ("1.16!", True, False), ("latest", True, False), ("latest-on-disk", False, True)],
)
def test_selector_says_where_to_look(selector: str, ask: bool, on_disk: bool) -> None:
    parsed = parse_selector(selector)
    assert (parsed.ask, parsed.on_disk) == (ask, on_disk)


@pytest.mark.parametrize(
    "text", ["", "a.b.c", "1", "1.x", "1.16.3.4", "01.16", "1.16.", "!", ">1.16", "1.16-rc.1", "1.1٢", "1." + "9" * 99]
)
def test_text_that_selects_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"selects no version; known are 1\.36"):
        parse_selector(text)


def test_newest_matching_version_is_chosen() -> None:
    versions = [Version(1, 9, 0), Version(1, 10, 2), Version(1, 10, 10), Version(2, 0, 0)]
    assert parse_selector("<2.0").newest(versions) == Version(1, 10, 10)
    assert parse_selector("1.11").newest(versions) is None


HASH, LINK = {"hash": "Aa" * 64}, {"selfLink": "https://host/file"}


@pytest.mark.parametrize(
    ("name", "platform", "entry", "valid"),
    [
        ("v1.16.4", "linux-amd64", HASH | LINK, True),
        ("v1.16.4", "linux-s390x", HASH | LINK, False),
        ("v1.16.4-rc.1", "linux-amd64", HASH | LINK, False),
        ("v1.16.4", "linux-amd64", {"hash": "aa"} | LINK, False),
        ("v1.16.4", "linux-amd64", {"hash": 3} | LINK, False),
        ("v1.16.4", "linux-amd64", HASH | {"selfLink": "file:///etc/passwd"}, False),
        ("v1.16.4", "linux-amd64", HASH | {"selfLink": 5}, False),
        ("v1.16.4", "linux-amd64", HASH, False),
        ("v1.16.4", "linux-amd64", "text", False),
    ],
)
def test_index_lists_valid_archives_of_the_platform(name: str, platform: str, entry: object, valid: bool) -> None:
    index = {"releases": {name: {f"envtest-{name}-{platform}.tar.gz": entry}}}
    found = {Version(1, 16, 4): store.Download("https://host/file", "sha512:" + "aa" * 64)}
    assert store.downloads(index, "linux-amd64") == (found if valid else {})


@pytest.mark.parametrize("index", [None, ["x"], {"releases": []}, {"releases": {1: {}}}, {"releases": {"v1.16.4": []}}])
def test_index_of_another_shape_lists_nothing(index: object) -> None:
    assert store.downloads(index, "linux-amd64") == {}


def elf(machine: int) -> bytes:
    return b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little") + bytes(100)


@pytest.mark.parametrize(
    ("start", "platform"),
    [
        (elf(62), "linux-amd64"),
        (elf(183), "linux-arm64"),
        (elf(22), "linux on another machine"),
        (b"MZ\x90", "windows"),
        (b"\xcf\xfa\xed\xfe", "darwin"),
        (SCRIPT, ""),
        (b"", ""),
    ],
)
def test_executable_says_its_platform(start: bytes, platform: str) -> None:
    assert store.platform_of(start[:20]) == platform


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, without go."""
    monkeypatch.setenv("CAPI_FUNCTIONS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr("shutil.which", {}.get)
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


def tar_of(files: dict[str, bytes], *, links: dict[str, str] | None = None) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def zip_of(files: dict[str, bytes], *, links: dict[str, str] | None = None) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, target in (links or {}).items():
            link = zipfile.ZipInfo(name)
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(link, target)
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


PACKERS = [tar_of, zip_of]


def sideloaded(version: str, content: bytes, tmp_path: Path) -> Path:
    archive = tmp_path / "archive"
    archive.write_bytes(content)
    return store.sideload(parse_version(version), archive, progress=print)


def files(folder: Path) -> list[str]:
    """Returns the paths of all files below a folder, except locks."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != ".lock"
    )


@pytest.mark.parametrize("pack", PACKERS)
def test_sideloaded_version_is_used_without_network(pack: Callable[..., bytes], tmp_path: Path, cache: Path) -> None:
    folder = sideloaded("1.16.2", pack(BOTH), tmp_path)
    assert files(folder) == ["SHA512SUMS", "etcd", "kube-apiserver", "kubectl"]
    assert os.access(folder / "etcd", os.X_OK)
    used = store.use(parse_selector("~1.16.1"), progress=pytest.fail, index="https://not.reached")
    assert used == (Version(1, 16, 2), folder)
    assert files(cache) == [f"versions/v1.16.2/{name}" for name in files(folder)]


@pytest.mark.parametrize("pack", PACKERS)
def test_paths_and_links_of_an_archive_lead_nowhere(pack: Callable[..., bytes], tmp_path: Path, cache: Path) -> None:
    hostile = {"../../../etcd": SCRIPT, "/abs/kube-apiserver": SCRIPT, "../../../outside": SCRIPT}
    folder = sideloaded("1.16.2", pack(hostile, links={"kubectl": "/bin/sh"}), tmp_path)
    assert files(folder) == ["SHA512SUMS", "etcd", "kube-apiserver"]
    assert not list(tmp_path.rglob("outside"))
    with pytest.raises(BinaryNotFound, match="does not contain etcd"):
        sideloaded("1.16.3", pack({"a/kube-apiserver": SCRIPT}, links={"a/etcd": "/bin/sh"}), tmp_path)


WHOLE_TAR, WHOLE_ZIP = tar_of(BOTH | {"x": os.urandom(5000)}), zip_of(BOTH | {"x": os.urandom(5000)})
FLIPPED = bytearray(zip_of({name: os.urandom(5000) for name in BOTH}))
FLIPPED[3000] ^= 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty|not a gzip|EOF"),
        (b"no archive", "Not a gzipped file"),
        (WHOLE_TAR[:3000], "ended|EOF|end"),
        (WHOLE_ZIP[:3000], "Not a gzipped file"),
        (bytes(FLIPPED), "CRC"),
        (tar_of({"etcd": SCRIPT}), "does not contain kube-apiserver"),
        (tar_of({"etcd": elf(22), "kube-apiserver": SCRIPT}), "etcd in it is for linux on another machine"),
        (zip_of({"etcd": SCRIPT, "kube-apiserver": b"MZ"}), "kube-apiserver in it is for windows"),
        (tar_of({**BOTH, "envtest/etcd": bytes(200_000)}), "etcd is larger than 100000"),
        (zip_of({**BOTH, "envtest/etcd": bytes(200_000)}), "etcd is larger than 100000"),
        (tar_of({**BOTH, "other": bytes(400_000)}), "its content is larger than 300000"),
        (zip_of({**BOTH, "other": bytes(400_000)}), "its content is larger than 300000"),
        (tar_of({**BOTH, "other/etcd": SCRIPT}), "it contains two files etcd"),
        (zip_of({**BOTH, "other/etcd": SCRIPT}), "it contains two files etcd"),
    ],
)
def test_unusable_archive_is_named_and_leaves_the_former_version(
    content: bytes, reason: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "LARGEST", 100_000)
    monkeypatch.setattr(archives, "LARGEST_UNPACKED", 300_000)
    folder = sideloaded("1.16.2", tar_of(BOTH), tmp_path)
    before = files(cache)
    with pytest.raises(BinaryNotFound, match=rf"v1\.16\.2 is not installed from {tmp_path}/archive: .*({reason})"):
        sideloaded("1.16.2", content, tmp_path)
    assert files(cache) == before
    assert store.verified(folder) == folder


def test_cache_that_cannot_be_written_is_named_with_the_way_out(cache: Path, tmp_path: Path) -> None:
    cache.write_text("no folder")
    with pytest.raises(BinaryNotFound, match=f"the cache cannot be used: .*{cache}.*; .CAPI_FUNCTIONS_CACHE names"):
        sideloaded("1.16.2", tar_of(BOTH), tmp_path)


def test_sideload_replaces_an_installed_version(tmp_path: Path) -> None:
    sideloaded("1.16.2", tar_of(BOTH), tmp_path)
    folder = sideloaded("1.16.2", tar_of({**BOTH, "envtest/etcd": b"#!/bin/sh\necho other\n"}), tmp_path)
    assert (folder / "etcd").read_bytes() == b"#!/bin/sh\necho other\n"
    assert store.verified(folder) == folder


@pytest.mark.parametrize(
    ("name", "content"),
    [("etcd", SCRIPT[:-1]), ("kubectl", b"changed"), ("SHA512SUMS", b""), ("SHA512SUMS", b"0  etcd\n"), ("etcd", None)],
)
def test_changed_file_is_noticed_at_use(name: str, content: bytes | None, tmp_path: Path) -> None:
    folder = sideloaded("1.16.2", tar_of(BOTH), tmp_path)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(BinaryNotFound, match=r"is damaged: .*local binaries cleanup v1\.16\.2` removes it"):
        store.use(parse_selector("1.16"), progress=print)
    assert store.remove(parse_selector("v1.16.2"), progress=print) == [Version(1, 16, 2)]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[HttpServer, str]]:
    """A server with archives of 1.16.4 and, with another content than the index says, of 1.17.0; and its index."""
    good = tar_of(BOTH)

    def answer(request: Request) -> Response:
        if request.path == "/index":
            return Response(body=json.dumps({"releases": releases}).encode())
        return Response(body=good if "1.16.4" in request.path else good[:-8])

    with HttpServer(answer) as server:
        name = "envtest-{version}-{platform}.tar.gz"
        releases = {
            version: {
                (file := name.format(version=version, platform=this_platform())): {
                    "hash": hashlib.sha512(good).hexdigest(),
                    "selfLink": f"{server.url}/{file}",
                }
            }
            for version in ("v1.16.4", "v1.17.0")
        }
        yield server, f"{server.url}/index"


@pytest.mark.parametrize(
    ("selector", "installed_only", "version", "requests"),
    [
        ("~1.16.0", False, "v1.16.1", 0),
        ("1.16.*!", False, "v1.16.4", 2),
        ("1.16.*!", True, "v1.16.1", 0),
        ("1.14.*!", False, "v1.14.26", 1),
        ("<1.17!", False, "v1.16.4", 2),
        ("latest-on-disk", False, "v1.16.1", 0),
    ],
)
def test_network_is_used_only_where_the_selector_asks_for_it(
    selector: str, installed_only: bool, version: str, requests: int, tmp_path: Path, index: tuple[HttpServer, str]
) -> None:
    for present in ("1.16.1", "1.14.26"):
        sideloaded(present, tar_of(BOTH), tmp_path)
    found, folder = store.use(
        parse_selector(selector), progress=lambda _line: None, index=index[1], installed_only=installed_only
    )
    assert (str(found), folder.name, len(index[0].requests)) == (version, version, requests)


def test_download_with_another_digest_is_not_installed(cache: Path, index: tuple[HttpServer, str]) -> None:
    with pytest.raises(BinaryNotFound, match=r"v1\.17\.0 is not installed from http.*: its digest is sha512:"):
        store.use(parse_selector("1.17"), progress=lambda _line: None, index=index[1])
    assert files(cache) == []


def test_list_has_installed_versions_first(tmp_path: Path, index: tuple[HttpServer, str]) -> None:
    sideloaded("1.14.26", tar_of(BOTH), tmp_path)
    everything = parse_selector("latest")
    found = store.versions(everything, progress=print, index=index[1])
    assert [(str(version), state) for version, state in found.items()] == [
        ("v1.14.26", "installed"),
        (str(PINNED), "build"),
        ("v1.17.0", "download"),
        ("v1.16.4", "download"),
    ]
    assert list(store.versions(everything, progress=print, installed_only=True)) == [Version(1, 14, 26)]


def test_pinned_version_that_was_built_is_used_where_the_index_is_unreachable(cache: Path) -> None:
    """It is in the store as links to what was built, and stays usable when that goes."""
    built = [module_of(name).cache / name for name in EXECUTABLES]
    for path in built:
        path.parent.mkdir(parents=True)
        path.write_bytes(SCRIPT)
        path.chmod(0o755)
    lines: list[str] = []
    for selector in ("latest", str(PINNED)):
        version, folder = store.use(parse_selector(selector), progress=lines.append, index="http://127.0.0.1:1/index")
        assert version == PINNED
    assert len([line for line in lines if "http://127.0.0.1:1/index cannot be read" in line]) == 1
    built[0].unlink()
    assert store.verified(folder) == folder
    assert store.remove(parse_selector("latest"), progress=print) == [PINNED]
    assert files(cache) == [str(built[1].relative_to(cache))]


def test_version_that_nobody_has_is_refused_with_what_is_there(tmp_path: Path, index: tuple[HttpServer, str]) -> None:
    sideloaded("1.14.26", tar_of(BOTH), tmp_path)
    with pytest.raises(
        BinaryNotFound, match=r"no version of kube-apiserver matches 1\.10; installed: v1\.14\.26; .*list`"
    ):
        store.use(parse_selector("1.10"), progress=print, index=index[1])


@pytest.mark.parametrize("selector", ["latest", "latest-on-disk"])
def test_cleanup_takes_a_range(selector: str, tmp_path: Path) -> None:
    """Who wants to delete the newest version shall not delete all."""
    folder = sideloaded("1.16.2", tar_of(BOTH), tmp_path)
    assert CliRunner().invoke(binaries.app, ["cleanup", selector]).exit_code == 2
    assert store.verified(folder)
    assert CliRunner().invoke(binaries.app, ["cleanup", "1.16"]).exit_code == 0
    assert store.installed() == {}


def test_controllers_are_not_newer_than_their_api_server() -> None:
    for version in (PINNED, replace(PINNED, patch=99), replace(PINNED, minor=PINNED.minor + 1)):
        store.refuse_unless_controllers_work_with(version)
    for version in (replace(PINNED, minor=PINNED.minor - 1), replace(PINNED, minor=PINNED.minor + 2)):
        with pytest.raises(BinaryNotFound, match=f"there are no controllers for {version}"):
            store.refuse_unless_controllers_work_with(version)
