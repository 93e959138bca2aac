"""Programs of managers that a user gives: executables, folders with Go sources, and Go packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.local.managers.command import ManagerError
from infra.local.managers.programs import given, image_version, of_same_version, parse, place
from infra.local_control_plane import go_build
from shared.kube import Object

FAKE_GO = """#!/bin/sh
echo "$PWD $*" >> "{calls}"
case "$1 $4" in
  "mod example.com/a/provider@v1.0.0" | "mod sigs.k8s.io/cluster-api@"*) echo '{answer}' ;;
  mod*) echo '{{"Error": "not found"}}'; exit 1 ;;
  *) while [ "$1" != -o ]; do shift; done; echo "built of $3" > "$2"; [ ! -e fails ] ;;
esac
"""


@pytest.fixture(autouse=True)
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go, which knows the module example.com/a/provider; returns the file with a line for each call."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source/go.mod").write_text("module any\n")
    go, found = tmp_path / "path" / "go", tmp_path / "calls"
    go.parent.mkdir()
    go.write_text(FAKE_GO.format(calls=found, answer=json.dumps({"Dir": str(tmp_path / "source")})))
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    monkeypatch.setenv("CAPI_FUNCTIONS_CACHE", str(tmp_path / "cache"))
    return found


def placed(run: Path, source: str | Path) -> Path:
    place(run, parse(f"infrastructure-a={source}"), print)
    found = given(run, "infrastructure-a")
    assert found is not None
    return found


def test_executable_is_used_where_it_is(tmp_path: Path) -> None:
    assert given(tmp_path, "infrastructure-a") is None
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert placed(tmp_path / "run", program).resolve() == program
    assert placed(tmp_path / "run", "/bin/sh").resolve() == Path("/bin/sh").resolve()
    assert program.read_text() == "#!/bin/sh\n", "a new program must not be written through the link"


def test_sources_in_a_folder_are_built_at_each_start(tmp_path: Path, calls: Path) -> None:
    for _ in range(2):
        placed(tmp_path / "run", tmp_path / "source")
    built = placed(tmp_path / "run", tmp_path / "source")
    assert built == tmp_path / "run/bin/infrastructure-a-manager"
    assert [line.split()[0] for line in calls.read_text().splitlines()] == [str(tmp_path / "source")] * 3


@pytest.mark.parametrize("path", ["", "/cmd/manager"])
def test_package_is_built_once_in_the_source_of_its_module(path: str, tmp_path: Path, calls: Path) -> None:
    """So the dependencies are those that the module pins, replacements included."""
    for number in (1, 2):
        built = placed(tmp_path / f"run{number}", f"example.com/a/provider{path}@v1.0.0")
        assert built.read_text() == f"built of .{path}\n"
    builds = [line for line in calls.read_text().splitlines() if " build " in line]
    assert len(builds) == 1
    assert builds[0].startswith(f"{tmp_path / 'source'} build ")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing", "this is neither an executable file nor a folder; give one of these, or a Go package"),
        ("example.com/other@v1.0.0", "example.com/other@v1.0.0 cannot be downloaded: not found"),
        ("example.com/a/provider@latest", "this is neither an executable file nor a folder"),
        ("failing", "cannot be built: `go build` ended with status 1"),
    ],
)
def test_source_that_gives_no_program_is_reported(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing").mkdir()
    (tmp_path / "failing/fails").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ManagerError, match=f"manager infrastructure-a={source}.*{message}"):
        placed(tmp_path / "run", source)
    assert given(tmp_path / "run", "infrastructure-a") is None


def test_go_that_is_missing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ManagerError, match="no `go` in PATH; install Go, or give the path of an executable"):
        placed(tmp_path / "run", tmp_path / "source")


def deployment(image: str, label: str = "cluster-api") -> Object:
    containers = [{"name": "proxy", "image": "proxy:v0.1.0"}, {"name": "manager", "image": image}]
    metadata = {"name": "a", "labels": {"cluster.x-k8s.io/provider": label}}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": containers}}}}


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("registry.k8s.io/core:v1.13.4", "v1.13.4"),
        ("localhost:5000/core:v1.14.0@sha256:abc", "v1.14.0"),
        ("localhost:5000/core", ""),
    ],
)
def test_version_of_a_manager_is_the_tag_of_its_image(image: str, version: str) -> None:
    assert image_version(deployment(image)) == version


@pytest.mark.parametrize(
    ("version", "label", "package"),
    [
        ("v1.13.4", "cluster-api", "."),
        ("v1.14.7", "cluster-api", "./core"),
        ("v1.13.4", "bootstrap-kubeadm", "./bootstrap/kubeadm"),
    ],
)
def test_manager_of_another_version_is_built_from_its_module(version: str, label: str, package: str) -> None:
    assert of_same_version(deployment(f"any:{version}", label), print).read_text() == f"built of {package}\n"


def test_modules_in_subfolders_have_the_version_of_their_repository(tmp_path: Path, calls: Path) -> None:
    (tmp_path / "source/go.mod").write_text("module any\n\nreplace example.com/a/provider/api => ./api\n")
    built = go_build.of_module("manager", "example.com/a/provider/cmd/manager@v1.0.0", print)
    assert built.read_text() == "built of example.com/a/provider/cmd/manager\n"
    assert calls.read_text().splitlines()[-1].split()[0] != str(tmp_path / "source")


def test_manager_without_a_known_version_is_refused() -> None:
    with pytest.raises(ManagerError, match="without version cannot be built"):
        of_same_version(deployment("any"), print)
    with pytest.raises(ManagerError, match="is not an executable"):
        of_same_version(deployment("any:v1.0.0", "control-plane-other"), print)
