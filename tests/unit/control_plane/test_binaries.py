"""Finding executables: the order of the sources, downloads, builds, and attempts that fail halfway."""

import hashlib
import http.server
import io
import os
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infra.local_control_plane import archives, binaries, go_build, modules
from infra.local_control_plane.binaries import Archive, BinaryNotFound, locate
from infra.local_control_plane.cache import cache_directory
from tests.support.until import HANGS, logged, until

SCRIPT = b"#!/bin/sh\necho archived\n"
PINNED = binaries.ARCHIVES

FAKE_GO = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo "go: downloading example.com/module v1" >&2
echo "example.com/package" >&2
echo "built${GOMAXPROCS:+ with GOMAXPROCS=$GOMAXPROCS}" >> "$(dirname "$0")/calls"
while [ -n "$FAKE_GO_WAITS_FOR" ] && [ ! -e "$FAKE_GO_WAITS_FOR" ]; do sleep 0.02; done
[ -z "$FAKE_GO_FAILS" ] || { echo "undefined: everything" >&2; exit 1; }
echo "$3" > "$2"
"""


class Lines(list[str]):
    """Collects lines of progress."""

    def __call__(self, line: str) -> None:
        self.append(line)

    @property
    def text(self) -> str:
        return "\n".join(self)


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty cache, without assets, archives and go."""
    monkeypatch.setattr(binaries, "ARCHIVES", ())
    for variable in ("KUBEBUILDER_ASSETS", *binaries.VARIABLES.values()):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("CAPI_FUNCTIONS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", {}.get)
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake go; returns the file to which it writes a line per call."""
    executable(tmp_path / "go" / "go", FAKE_GO.encode())
    monkeypatch.setenv("PATH", f"{tmp_path / 'go'}:/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", {"go": "go"}.get)
    return tmp_path / "go" / "calls"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A directory that an HTTP server serves, and its URL. Of a file named .cut only the first half is sent."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = tmp_path / "served" / self.path.lstrip("/")
            if not path.exists():
                self.send_error(404)
                return
            content = path.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if path.suffix == ".cut" else content)

        def log_message(self, *_: object) -> None:
            with (tmp_path / "requests").open("a") as log:
                log.write(self.path + "\n")

    (tmp_path / "served").mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield tmp_path / "served", f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def executable(path: Path, content: bytes = SCRIPT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def release(
    served: tuple[Path, str],
    members: dict[str, bytes] | bytes,
    *,
    name: str = "{version}.tar.gz",
    digest: str = "",
) -> Archive:
    """Puts an archive on the server; `members` are the files in it, or its bytes."""
    directory, url = served
    file = directory / name.format(version="v9")
    if isinstance(members, bytes):
        file.write_bytes(members)
    elif members:
        with tarfile.open(file, "w:gz") as archive:
            for member, content in members.items():
                info = tarfile.TarInfo(member)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    content = file.read_bytes() if file.exists() else b""
    digest = digest or f"sha512:{hashlib.sha512(content).hexdigest()}"
    platforms = dict.fromkeys(("linux-amd64", "linux-arm64"), digest)
    return Archive("envtest", "v9", f"{url}/{name}", ("etcd", "kube-apiserver"), platforms)


def cached_files(cache: Path) -> list[str]:
    """Returns the names of all files in the cache except locks."""
    return sorted(p.name for p in cache.rglob("*") if p.is_file() and not p.name.endswith(".lock"))


BOTH = {"bin/etcd": SCRIPT, "bin/kube-apiserver": SCRIPT, "bin/kubectl": SCRIPT}


def test_assets_precede_the_cache_then_archives_then_builds(
    cache: Path,
    tmp_path: Path,
    served: tuple[Path, str],
    go: Path,
    lines: Lines,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each source is used only if those before it fail."""
    (etcd,) = [module for module in modules.MODULES if module.directory == "etcd"]
    archive = release(served, BOTH)

    assert locate(["etcd"], progress=lines, archives=()) == {"etcd": etcd.cache / "etcd"}
    assert go.read_text() == "built\n"
    (etcd.cache / "etcd").unlink()
    assert locate(["etcd"], progress=lines, archives=[archive]) == {"etcd": archive.cache / "etcd"}
    assert go.read_text() == "built\n"
    requests = (tmp_path / "requests").read_text()
    built = executable(etcd.cache / "etcd")
    assert locate(["etcd"], progress=lines, archives=[archive]) == {"etcd": built}
    asset = executable(tmp_path / "assets" / "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(asset.parent))
    assert locate(["etcd", "kube-apiserver"], progress=lines, archives=[archive]) == {
        "etcd": asset,
        "kube-apiserver": archive.cache / "kube-apiserver",
    }
    assert (tmp_path / "requests").read_text() == requests


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("etcd", "TEST_ASSET_ETCD"),
        ("kube-apiserver", "TEST_ASSET_KUBE_APISERVER"),
        ("kubectl", "TEST_ASSET_KUBECTL"),
    ],
)
def test_variable_for_one_executable_precedes_the_folder_of_assets(
    name: str, variable: str, tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in envtest: the file may have another name, and no other place is tried if it cannot be run."""
    asset = executable(tmp_path / "assets" / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(asset.parent))
    monkeypatch.setenv(variable, "")
    assert locate([name], progress=lines) == {name: asset}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, "mine")
    with pytest.raises(BinaryNotFound, match=f"{variable}: {tmp_path}/mine is not an executable file"):
        locate([name], progress=lines)
    mine = executable(tmp_path / "mine")
    assert locate([name], progress=lines) == {name: mine}
    with pytest.raises(BinaryNotFound):  # pinned versions alone
        locate([name], progress=lines, assets=False)


def test_executables_of_the_user_count_together_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Controllers must not be newer than their API server."""
    wanted = ["kube-apiserver", "kube-scheduler"]
    monkeypatch.setenv("TEST_ASSET_KUBE_APISERVER", str(executable(tmp_path / "mine")))
    assert not binaries.in_assets(wanted)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(executable(tmp_path / "assets" / "kube-scheduler").parent))
    assert binaries.in_assets(wanted)


def test_asset_that_is_not_executable_is_refused(tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "helm").touch(0o644)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(BinaryNotFound, match="is not an executable file"):
        locate(["helm"], progress=lines)


def test_archive_is_downloaded_once_and_unpacked(cache: Path, served: tuple[Path, str], lines: Lines) -> None:
    found = locate(["etcd", "kube-apiserver"], progress=lines, archives=[release(served, BOTH)])
    assert cached_files(cache) == ["etcd", "kube-apiserver"]
    for path in found.values():
        assert subprocess.check_output([path]) == b"archived\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert len([line for line in lines if line.startswith("downloading")]) == 1


HALF = io.BytesIO()
with tarfile.open(fileobj=HALF, mode="w:gz") as _tar:
    _info = tarfile.TarInfo("etcd")
    _info.size = 100_000
    _tar.addfile(_info, io.BytesIO(os.urandom(100_000)))


@pytest.mark.parametrize(
    ("members", "name", "digest", "reason"),
    [
        (BOTH, "{version}.tar.gz", "sha512:" + "0" * 128, "its digest is sha512:(?!0{128})"),
        (BOTH, "{version}.tar.gz", "sha256:" + "0" * 64, "its digest is sha256:(?!0{64})"),
        (BOTH, "{version}.tar.gz.cut", "", "digest|read"),
        (b"not an archive", "{version}.tar.gz", "", "gzip"),
        (HALF.getvalue()[:50_000], "{version}.tar.gz", "", "end|EOF|ended"),
        ({"bin/kubectl": SCRIPT}, "{version}.tar.gz", "", "does not contain etcd"),
        ({}, "{version}.absent", "", "404"),
    ],
)
def test_unusable_archive_leaves_no_file(
    members: dict[str, bytes] | bytes,
    name: str,
    digest: str,
    reason: str,
    cache: Path,
    served: tuple[Path, str],
    lines: Lines,
) -> None:
    """Also if it breaks off in the middle of a file."""
    archive = release(served, members, name=name, digest=digest)
    with pytest.raises(BinaryNotFound, match=reason):
        locate(["etcd"], progress=lines, archives=[archive])
    assert cached_files(cache) == []


def test_unreachable_host_falls_back_to_a_build(lines: Lines, go: Path) -> None:
    """The failure is reported as progress."""
    archive = Archive("envtest", "v9", "http://127.0.0.1:1/{version}", ("etcd",), binaries.ENVTEST.digests)
    assert locate(["etcd"], progress=lines, archives=[archive])["etcd"].exists()
    assert "http://127.0.0.1:1/v9 cannot be used" in lines.text
    assert "built etcd" in lines.text


def test_hostile_archive_members_are_ignored(
    tmp_path: Path, cache: Path, served: tuple[Path, str], lines: Lines
) -> None:
    directory, _ = served
    with tarfile.open(directory / "v9.tar.gz", "w:gz") as archive:
        for name, kind, link in [
            ("etcd", tarfile.SYMTYPE, "/bin/sh"),
            ("kube-apiserver", tarfile.LNKTYPE, "../../outside"),
            ("../../../outside", tarfile.REGTYPE, ""),
            ("/etcd", tarfile.DIRTYPE, ""),
            ("../../../kube-apiserver", tarfile.REGTYPE, ""),
        ]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, link, len(SCRIPT) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(SCRIPT))
    release_ = release(served, (directory / "v9.tar.gz").read_bytes())

    found = locate(["kube-apiserver"], progress=lines, archives=[release_])["kube-apiserver"]
    assert found.parent == release_.cache
    assert not found.is_symlink()
    assert cached_files(cache) == ["kube-apiserver"]
    assert not list(tmp_path.rglob("outside"))
    with pytest.raises(BinaryNotFound):
        locate(["etcd"], progress=lines, archives=[release_])


def test_archive_member_above_the_limit_is_refused(
    cache: Path, served: tuple[Path, str], lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = release(served, {"etcd": bytes(1000_000)})
    monkeypatch.setattr(archives, "LARGEST", 900_000)
    with pytest.raises(BinaryNotFound, match="larger than"):
        locate(["etcd"], progress=lines, archives=[archive])
    assert cached_files(cache) == []


def test_concurrent_runs_download_once(served: tuple[Path, str], tmp_path: Path) -> None:
    archive = release(served, BOTH)
    results: list[dict[str, Path]] = []
    threads = [
        threading.Thread(target=lambda: results.append(locate(["etcd"], progress=Lines(), archives=[archive])))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [{"etcd": archive.cache / "etcd"}] * 6
    assert (tmp_path / "requests").read_text() == "/v9.tar.gz\n"


def test_concurrent_runs_build_once(go: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In processes: one builds until the others have reported that they wait."""
    may_end, log = tmp_path / "may-end", tmp_path / "log"
    monkeypatch.setenv("FAKE_GO_WAITS_FOR", str(may_end))
    code = (
        "from functools import partial; from infra.local_control_plane.binaries import locate\n"
        "print(locate(['helm'], progress=partial(print, flush=True), archives=())['helm'])"
    )
    with log.open("ab") as output:
        runs = [subprocess.Popen([sys.executable, "-c", code], stdout=output) for _ in range(3)]
    waiting = "waiting for another run that builds helm"
    until(lambda: log.read_text().count(waiting) == 2, "two that wait", details=logged(log))
    may_end.touch()
    assert [run.wait(HANGS) for run in runs] == [0, 0, 0]
    assert go.read_text() == "built\n"
    assert log.read_text().count(waiting) == 2
    assert cached_files(cache) == ["helm"]


def test_build_reports_progress(go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build lasts until the first report."""
    report, may_end = "1 packages compiled, now example.com/package", tmp_path / "may-end"
    monkeypatch.setenv("FAKE_GO_WAITS_FOR", str(may_end))
    monkeypatch.setattr(go_build, "REPORT_INTERVAL", 0.05)
    lines: list[str] = []

    def progress(line: str) -> None:
        lines.append(line)
        if report in line:
            may_end.touch()

    locate(["ingress"], progress=progress)
    assert any(report in line for line in lines)


def test_build_does_not_obey_what_the_caller_set_for_its_servers(
    go: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOMAXPROCS", "1")
    locate(["ingress"], progress=lines)
    assert go.read_text() == "built\n"


def test_failed_build_reports_the_output_of_go(
    go: Path, cache: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO_FAILS", "1")
    with pytest.raises(BinaryNotFound, match="undefined: everything"):
        locate(["helm"], progress=lines)
    assert cached_files(cache) == []


def test_remains_of_a_killed_build_are_replaced(go: Path, lines: Lines) -> None:
    module = modules.module_of("helm")
    module.cache.mkdir(parents=True)
    (module.cache / ".helm.partial").write_text("half")
    assert locate(["helm"], progress=lines) == {"helm": module.cache / "helm"}
    assert cached_files(module.cache) == ["helm"]


def test_locate_without_get_finds_unpacked_archives_and_downloads_nothing(
    go: Path, lines: Lines, served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "ARCHIVES", [archive := release(served, BOTH)])
    with pytest.raises(BinaryNotFound):
        locate(["etcd"], progress=lines, get=False)
    assert not go.exists()
    assert not (tmp_path / "requests").exists()
    locate(["etcd"], progress=lines)
    assert locate(["etcd"], progress=lines, get=False) == {"etcd": archive.cache / "etcd"}


@pytest.mark.parametrize("archive", PINNED, ids=lambda archive: str(archive.directory))
def test_pinned_archives_have_both_architectures_and_the_minor_version_of_the_module(archive: Archive) -> None:
    assert sorted(archive.digests) == ["linux-amd64", "linux-arm64"]
    for digest in archive.digests.values():
        algorithm, _, value = digest.partition(":")
        assert len(value) == 2 * hashlib.new(algorithm).digest_size
    built = modules.module_of(archive.names[-1]).version
    assert archive.version.split(".")[:2] == built.split(".")[:2]


def test_named_executables_are_copied_to_a_folder(
    go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: tuple[Path, str]
) -> None:
    archive = release(served, {"linux-amd64/helm": SCRIPT})
    monkeypatch.setattr(binaries, "ARCHIVES", [replace(archive, directory="helm", names=("helm",))])
    monkeypatch.setattr(sys, "argv", ["binaries", "helm", "--into", str(tmp_path / "bin")])
    binaries.main()
    assert subprocess.check_output([tmp_path / "bin" / "helm"]) == b"archived\n"
    assert not go.exists()
    monkeypatch.setattr(sys, "argv", ["binaries", "nope"])
    with pytest.raises(SystemExit, match="nope is not an executable"):
        binaries.main()


def test_error_lists_all_attempts_and_what_helps(lines: Lines) -> None:
    with pytest.raises(BinaryNotFound) as caught:
        locate(["filter", "etcd"], progress=lines, archives=())
    message = str(caught.value)
    for expected in (
        "filter was not found",
        "etcd was not found",
        "KUBEBUILDER_ASSETS",
        "no `go`",
        "install Go >= 1.26",
    ):
        assert expected in message


def test_unknown_executable_is_refused(lines: Lines) -> None:
    with pytest.raises(ValueError, match="kubeadm"):
        locate(["kubeadm"], progress=lines)


@pytest.mark.parametrize("module", modules.MODULES, ids=lambda module: str(module.directory))
def test_every_executable_is_a_tool_of_its_module(module: modules.Module) -> None:
    """Otherwise `go mod tidy` would remove its dependencies."""
    go_mod = (module.path / "go.mod").read_text()
    assert module.version.startswith("v")
    for package in module.packages.values():
        assert f"{package}\n" in go_mod or list((module.path / package).glob("*.go"))


def test_linker_flags_set_the_version() -> None:
    flags = modules.module_of("kube-apiserver").linker_flags
    assert "version.gitVersion=v1.36.3 " in flags
    assert flags.endswith("version.gitMinor=36")
    assert modules.module_of("helm").linker_flags == "-s -w -X helm.sh/helm/v4/internal/version.version=v4.2.4"
    assert modules.module_of("kwok").linker_flags == "-s -w"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"CAPI_FUNCTIONS_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/capi-functions"),
        ({"HOME": "/c"}, "/c/.cache/capi-functions"),
    ],
)
def test_cache_directory_follows_environment_variables(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CAPI_FUNCTIONS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_directory() == Path(expected)


def test_missing_source_of_a_module_reports_the_error_of_go(
    go: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests of the providers' manifests download real sources."""
    module = modules.module_of("clusterctl")
    with pytest.raises(ValueError, match=r"capi-1.14/go.mod does not require example.com/other"):
        module.source("example.com/other", lines)
    executable(go.parent / "go", b'#!/bin/sh\necho \'{"Error": "no such host"}\'\nexit 1\n')
    with pytest.raises(modules.SourceNotFound, match=r"cluster-api@v1.14.0 cannot be downloaded: no such host"):
        module.source("sigs.k8s.io/cluster-api", lines)
    executable(go.parent / "go", b"#!/bin/sh\necho unknown command >&2\nexit 2\n")
    with pytest.raises(modules.SourceNotFound, match=r"cannot be downloaded: unknown command"):
        module.source("sigs.k8s.io/cluster-api", lines)
    (go.parent / "go").unlink()
    with pytest.raises(modules.SourceNotFound, match="Go is needed to download"):
        module.source("sigs.k8s.io/cluster-api", lines)


def test_main_gets_all_executables(
    go: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["binaries"])
    names = sorted(name for module in modules.MODULES if not module.on_demand for name in module.packages)
    binaries.main()
    assert cached_files(cache) == names
    output = capsys.readouterr().out
    assert all(f"built {name} in" in output for name in names)
    (go.parent / "go").unlink()
    binaries.main()
    assert len(go.read_text().splitlines()) == len(names)


def test_main_fails_if_one_executable_is_missing(go: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["binaries"])
    monkeypatch.setenv("FAKE_GO_FAILS", "1")
    with pytest.raises(SystemExit, match="kwok was not found"):
        binaries.main()
