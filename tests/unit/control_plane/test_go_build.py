"""Executables that are the same wherever they are built, with the real Go."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from infra.local_control_plane import go_build

GO = shutil.which("go")
pytestmark = pytest.mark.skipif(GO is None, reason="needs Go in PATH")

MAIN = """package main

import ("fmt"; "runtime")

var version = "none"

func main() { _, file, _, _ := runtime.Caller(0); fmt.Println(version, file) }
"""


def built(folder: Path) -> Path:
    """Builds the program in `folder`, which is a clone of its own."""
    sources = folder / "sources"
    sources.mkdir(parents=True)
    (sources / "go.mod").write_text("module example.com/it\n\ngo 1.26.0\n")
    (sources / "main.go").write_text(MAIN)
    output = folder / "it"
    flags = "-s -w -X main.version=v1 -buildid="
    go_build.build("it", ".", output, print, folder=sources, flags=flags, **go_build.reproducible("amd64"))
    return output


def test_executable_depends_on_nothing_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOCACHE", "GOMODCACHE"):
        shared = subprocess.run([str(GO), "env", name], capture_output=True, text=True, check=True).stdout.strip()
        monkeypatch.setenv(name, shared)
    first = built(tmp_path / "first")

    home, programs = tmp_path / "home", tmp_path / "programs"
    (home / ".config/go").mkdir(parents=True)
    (home / ".config/go/env").write_text("GOAMD64=v3\nGOFIPS140=latest\nGOEXPERIMENT=nogreenteagc\n")
    programs.mkdir()
    (programs / "go").symlink_to(str(GO))
    other = {"HOME": str(home), "PATH": f"{programs}:/usr/bin:/bin", "XDG_CONFIG_HOME": str(home / ".config")}
    for name, value in {
        **other,
        "GOFLAGS": "-buildvcs=true -ldflags=-X=main.version=v2",
        "GOAMD64": "v2",
        "GOOS": "darwin",
        "CGO_ENABLED": "1",
        "GODEBUG": "panicnil=1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GOTOOLCHAIN", raising=False)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, env={**os.environ, **other})
    second = built(tmp_path / "a" / "second")
    assert first.read_bytes() == second.read_bytes()
    about = subprocess.run([str(GO), "version", "-m", str(first)], capture_output=True, text=True, check=True).stdout
    assert f": {go_build.TOOLCHAIN}\n" in about
    printed = subprocess.run([str(first)], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["v1", "example.com/it/main.go"]


def publish(proxy: Path, module: str, files: Mapping[str, str]) -> None:
    """Publishes version v1.0.0 of a module with these files, and a go.mod."""
    versions = proxy / module / "@v"
    versions.mkdir(parents=True)
    files = {"go.mod": f"module {module}\n\ngo 1.26.0\n", **files}
    (versions / "v1.0.0.info").write_text('{"Version": "v1.0.0"}')
    (versions / "v1.0.0.mod").write_text(files["go.mod"])
    with zipfile.ZipFile(versions / "v1.0.0.zip", "w") as packed:
        for name, text in files.items():
            packed.writestr(f"{module}@v1.0.0/{name}", text)


def test_module_with_a_list_of_vendored_packages_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is downloaded has that list, and lacks the packages."""
    proxy, used = tmp_path / "proxy", "example.com/used"
    cache = subprocess.run([str(GO), "env", "GOCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    for name, value in {
        "PATH": f"{Path(str(GO)).parent}{os.pathsep}{os.environ['PATH']}",
        "CAPI_FUNCTIONS_CACHE": str(tmp_path / "cache"),
        "GOCACHE": cache,
        "GOFLAGS": "-modcacherw",
        "GOMODCACHE": str(tmp_path / "modules"),
        "GOPROXY": f"file://{proxy}",
        "GOSUMDB": "off",
    }.items():
        monkeypatch.setenv(name, value)
    publish(proxy, used, {"used.go": 'package used\n\nconst Text = "used"\n'})
    command = [str(GO), "mod", "download", "-json", f"{used}@v1.0.0"]
    sums = json.loads(subprocess.run(command, cwd="/", capture_output=True, text=True, check=True).stdout)
    files = {
        "go.mod": f"module example.com/it\n\ngo 1.26.0\n\nrequire {used} v1.0.0\n",
        "go.sum": f"{used} v1.0.0 {sums['Sum']}\n{used} v1.0.0/go.mod {sums['GoModSum']}\n",
        "main.go": f'package main\n\nimport "{used}"\n\nfunc main() {{ println(used.Text) }}\n',
        "vendor/modules.txt": f"# {used} v1.0.0\n## explicit; go 1.26.0\n{used}\n",
    }
    publish(proxy, "example.com/it", files)
    program = go_build.of_module("it", "example.com/it@v1.0.0", print)
    assert subprocess.run([str(program)], capture_output=True, text=True, check=True).stderr == "used\n"
