"""The package of executables and components: reproducible, and refused if it was changed on its way."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest
import urllib3
from typer.testing import CliRunner

from infra.cli.commands import binaries
from infra.local.components_server import ComponentsServer
from infra.local_control_plane import package
from infra.local_control_plane.binaries import BinaryNotFound, this_platform
from infra.packaging.build import Content, build
from infra.packaging.licences import escaped, modules_in
from shared.download.github import GitHubReleases
from tests.support import processes

SCRIPT = b"#!/bin/sh\necho packaged\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CAPI_FUNCTIONS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def described(**changes: object) -> bytes:
    return json.dumps({"format": package.FORMAT, "platform": this_platform(), "versions": {}} | changes).encode()


def content(folder: Path) -> Content:
    """Returns the content of a small package, of a file and of bytes."""
    etcd = folder / "etcd"
    etcd.write_bytes(SCRIPT)
    files: dict[str, Path | bytes] = {
        "bin/etcd": etcd,
        "bin/kube-apiserver": os.urandom(20_000),
        "components/sigs/v1/core-components.yaml": b"kind: Namespace\n",
        "licenses/example.com/A@v1.0.0+incompatible/LICENSE.txt": b"free",
        "package.json": described(),
    }
    return files


def silent(_line: str) -> None:
    return None


def test_package_is_unpacked_once_with_checked_executables(tmp_path: Path) -> None:
    archive = build(tmp_path / "p.zip", content(tmp_path), silent).path
    lines: list[str] = []
    found = [package.opened(archive, progress=lines.append) for _ in range(2)]
    assert found[0] == found[1]
    assert lines == [f"unpacking {archive}"]
    assert found[0].programs == ["etcd", "kube-apiserver"]
    executable = found[0].executables(["etcd", "kube-apiserver"])["etcd"]
    assert subprocess.check_output([executable]) == b"packaged\n"
    assert (found[0].components / "sigs/v1/core-components.yaml").read_text() == "kind: Namespace\n"
    checked = subprocess.run(
        ["sha512sum", "--check", "--quiet", "-"], input=package.sums_of(archive), cwd=executable.parents[1]
    )
    assert checked.returncode == 0


def test_cleanup_deletes_unpacked_packages_but_none_in_use(tmp_path: Path) -> None:
    waiting = {**content(tmp_path), "bin/etcd": b"#!/bin/sh\necho runs; read line\n"}
    waiting["package.json"] = described(versions={"kube-apiserver": "v1.36.3"})
    archive = build(tmp_path / "p.zip", waiting, silent).path
    opener = (
        "import pathlib, sys; from infra.local_control_plane import package;"
        "print(package.opened(pathlib.Path(sys.argv[1]), progress=lambda line: None).folder, flush=True); input()"
    )

    def command(*arguments: str) -> str:
        done = CliRunner().invoke(binaries.app, arguments)
        assert done.exit_code == 0, done.output
        return " ".join(done.output.replace("\n", "").split())

    def cleaned_while_running(*program: str | Path) -> tuple[str, str]:
        """Returns the first line of a program, and what `cleanup` prints while it runs."""
        with processes.start(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            first = process.stdout.readline().strip()
            printed = command("cleanup", "1.36")
            process.communicate("\n")
        assert process.returncode == 0
        return first, printed

    folder, printed = cleaned_while_running(sys.executable, "-c", opener, archive)
    assert f"{folder} stays: it is in use" in printed
    first, printed = cleaned_while_running(Path(folder, "bin", "etcd"))
    assert first == "runs"
    assert f"{folder} stays: it is in use" in printed
    assert command("list", "-i", "1.36") == f"(package) v1.36.3 {folder}"
    (Path(folder).parent / ".0123.partial").mkdir()
    assert command("cleanup", "<1.36.3") == ""
    assert Path(folder).is_dir()
    assert command("cleanup", "1.36") == f"deleted {folder}"
    assert [path.name for path in Path(folder).parent.iterdir()] == [".lock"]
    assert str(package.opened(archive, progress=silent).folder) == folder


def test_executable_that_is_not_in_the_package_is_named(tmp_path: Path) -> None:
    opened = package.opened(build(tmp_path / "p.zip", content(tmp_path), silent).path, progress=silent)
    with pytest.raises(BinaryNotFound, match=r"p\.zip does not contain kwok, helm; .*--controllers"):
        opened.executables(["etcd", "kwok", "helm"])


@pytest.mark.parametrize("new", [b"#!/bin/sh\necho other\n", None])
def test_unpacked_executable_that_was_changed_is_not_run(new: bytes | None, tmp_path: Path) -> None:
    opened = package.opened(build(tmp_path / "p.zip", content(tmp_path), silent).path, progress=silent)
    (opened.bin / "etcd").unlink()
    if new is not None:
        (opened.bin / "etcd").write_bytes(new)
    with pytest.raises(BinaryNotFound, match=f"p.zip(, was changed| is not unpacked).*; delete {opened.folder}"):
        opened.executables(["etcd"])


def test_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    files = content(tmp_path)
    first = build(tmp_path / "1.zip", files, silent)
    os.utime(tmp_path / "etcd", (1, 1))
    (tmp_path / "etcd").chmod(0o600)
    second = build(tmp_path / "2.zip", dict(reversed(list(files.items()))), silent)
    assert first.path.read_bytes() == second.path.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.zip", "2.zip", "cache", "etcd"]


def test_only_a_package_with_other_content_or_damage_is_written_again(tmp_path: Path) -> None:
    files, target = content(tmp_path), tmp_path / "p.zip"
    assert build(target, files, silent).changed
    written = target.read_bytes()
    assert not build(target, files, silent).changed
    target.write_bytes(written[:-100])
    assert build(target, files, silent).changed
    assert target.read_bytes() == written
    damaged = bytearray(written)
    damaged[written.index(b"bin/kube-apiserver") + 500] ^= 1
    target.write_bytes(damaged)
    assert build(target, files, silent).changed
    assert target.read_bytes() == written
    assert build(target, {**files, "package.json": described(versions={"etcd": "v2"})}, silent).changed


def rezipped(change: Callable[[dict[str, bytes]], object]) -> Callable[[bytes], bytes]:
    """Changes the files of a package, and packs them again."""

    def changed(archive: bytes) -> bytes:
        with zipfile.ZipFile(io.BytesIO(archive)) as zipped:
            members = {name: zipped.read(name) for name in zipped.namelist()}
        change(members)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, data in members.items():
                zipped.writestr(name, data)
        return packed.getvalue()

    return changed


def listed(path: str, data: bytes) -> Callable[[dict[str, bytes]], object]:
    """Adds a file, and its digest to SHA512SUMS."""
    line = f"{hashlib.sha512(data).hexdigest()}  {path}\n".encode()
    return lambda members: members.update({path: data, "SHA512SUMS": members["SHA512SUMS"] + line})


def flipped(archive: bytes) -> bytes:
    """Changes one byte in the middle of kube-apiserver."""
    place = archive.index(b"bin/kube-apiserver") + 10_000
    return archive[:place] + bytes([archive[place] ^ 1]) + archive[place + 1 :]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda archive: archive[: len(archive) // 2], r"it is truncated, or not a zip archive \(\d+ bytes\)"),
        (lambda archive: archive[:-1], "it is truncated, or not a zip archive|zip"),
        (lambda _archive: b"", r"it is truncated, or not a zip archive \(0 bytes\)"),
        (flipped, "CRC|invalid|decompress"),
        (rezipped(lambda files: files.update({"bin/etcd": b"other"})), "bin/etcd was changed: its sha512 differs"),
        (rezipped(lambda files: files.pop("bin/etcd")), "bin/etcd is missing"),
        (rezipped(lambda files: files.pop("SHA512SUMS")), "because it does not contain SHA512SUMS"),
        (rezipped(lambda files: files.pop("package.json")), r"because it does not contain package\.json"),
        (rezipped(lambda files: files.update({"package.json": described(platform="mips")})), "it is for 'mips'"),
        (rezipped(lambda files: files.update({"package.json": described(format=2)})), "its format is 2"),
        (rezipped(lambda files: files.update({"package.json": b"[]"})), "its format is None"),
        (rezipped(lambda files: files.update({"package.json": b"[" * 100_000})), "nested too deeply"),
        (rezipped(lambda files: files.update({"SHA512SUMS": b"x" * 10})), "SHA512SUMS has the line 'xxx"),
        (rezipped(listed("bin/../../../outside", b"")), "SHA512SUMS has the line"),
        (rezipped(listed("/bin/outside", b"")), "SHA512SUMS has the line"),
        (rezipped(listed("licenses/bomb", bytes(200_000))), "its content is larger than 100000"),
    ],
)  # fmt: skip
def test_changed_package_is_refused_and_leaves_nothing(
    change: Callable[[bytes], bytes], reason: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "LARGEST_UNPACKED", 100_000)
    archive = build(tmp_path / "cluster-api.zip", content(tmp_path), silent).path
    archive.write_bytes(change(archive.read_bytes()))
    with pytest.raises(BinaryNotFound, match=rf"{archive} cannot be used: .*({reason}).*; copy the file again"):
        package.opened(archive, progress=silent)
    left = [path.name for path in cache.rglob("*") if path.is_file()]
    assert set(left) <= {".lock", ".package.lock"}
    assert not list(tmp_path.rglob("outside"))


def test_cache_that_cannot_be_written_is_named_with_the_way_out(cache: Path, tmp_path: Path) -> None:
    archive = build(tmp_path / "cluster-api.zip", content(tmp_path), silent).path
    shutil.rmtree(cache)
    cache.write_text("no folder")
    with pytest.raises(BinaryNotFound, match=f"the cache cannot be used: .*{cache}.*; .CAPI_FUNCTIONS_CACHE names"):
        package.opened(archive, progress=silent)


BUILD_INFO = """\
/cache/etcd: go1.26.8
\tpath\tgo.etcd.io/etcd/server/v3
\tmod\tgo.etcd.io/etcd/server/v3\tv3.6.16\th1:sLkpvz=
\tdep\tgithub.com/Masterminds/semver\tv1.5.0+incompatible\th1:a=
\tdep\tsigs.k8s.io/cluster-api/api\tv0.0.0-00010101000000-000000000000
\t=>\tsigs.k8s.io/cluster-api/api\tv1.14.0\th1:b=
\tbuild\t-buildmode=exe
/cache/other: go1.26.8
\tmod\texample.com/here\t(devel)
\tdep\tgithub.com/Masterminds/semver\tv1.5.0+incompatible\th1:a=
"""


def test_modules_of_executables_are_read_with_their_replacements() -> None:
    assert modules_in(BUILD_INFO) == {
        ("go.etcd.io/etcd/server/v3", "v3.6.16"),
        ("github.com/Masterminds/semver", "v1.5.0+incompatible"),
        ("sigs.k8s.io/cluster-api/api", "v1.14.0"),
    }


def test_folder_of_a_module_has_no_capital_letters() -> None:
    assert escaped("github.com/Masterminds/AB") == "github.com/!masterminds/!a!b"


def test_components_are_served_as_github_does(tmp_path: Path) -> None:
    (tmp_path / "served" / "o" / "r").mkdir(parents=True)
    (tmp_path / "served" / "o" / "r" / "core.yaml").write_text("kind: Namespace")
    (tmp_path / "secret").write_text("secret")
    server = ComponentsServer(tmp_path / "served")
    try:
        url = server.start()["GITHUB_URL"]
        with urllib3.PoolManager(retries=False) as pool:
            found = pool.request("GET", f"{url}/o/r/core.yaml")
            absent = ("o/r/absent", "o/r/", "../secret", "%2e%2e/secret")
            others = [pool.request("GET", f"{url}/{path}").status for path in absent]
        assert (found.status, found.data) == (200, b"kind: Namespace")
        assert others == [404] * 4
    finally:
        server.stop()


def test_releases_of_the_package_are_listed_as_github_does(tmp_path: Path) -> None:
    (tmp_path / "secret/releases/download/v6.6.6").mkdir(parents=True)
    folder = tmp_path / "served"
    for version in ("v1.13.4", "v1.14.0"):
        (folder / "o/r/releases/download" / version).mkdir(parents=True)
    server = ComponentsServer(folder)
    try:
        settings = server.start()
        assert settings["GITHUB_URL"] == settings["GITHUB_API_URL"]
        assert GitHubReleases(settings["GITHUB_API_URL"], "o", "r").list() == ["v1.13.4", "v1.14.0"]
        assert GitHubReleases(settings["GITHUB_API_URL"], "o", "other").list() == []
        connection = HTTPConnection(settings["GITHUB_URL"].removeprefix("http://"))
        connection.request("GET", "/repos/../secret/releases")  # as it is: other clients remove the dots
        assert connection.getresponse().read() == b"[]"
        connection.close()
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/o/r/releases/download/v1.14.0/core.yaml", None),
        ("/o/r/releases/download/v1.15.0/core.yaml", "https://github.com"),
        ("/o/other/releases/download/v1.0.0/metadata.yaml", "https://github.com"),
        ("/repos/o/r/releases?per_page=100&page=1", "https://api.github.com"),
    ],
)
def test_requests_for_what_the_cache_lacks_are_redirected_to_github(
    tmp_path: Path, path: str, target: str | None
) -> None:
    (tmp_path / "o/r/releases/download/v1.14.0").mkdir(parents=True)
    (tmp_path / "o/r/releases/download/v1.14.0/core.yaml").write_text("kind: Namespace")
    server = ComponentsServer(tmp_path, partial=True)
    try:
        url = server.start()["GITHUB_URL"]
        with urllib3.PoolManager(retries=False) as pool:
            found = pool.request("GET", f"{url}{path}", redirect=False)
        assert found.status == (302 if target else 200)
        assert found.headers.get("Location") == (target and target + path)
    finally:
        server.stop()
