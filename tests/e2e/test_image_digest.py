"""The image has the same digest wherever it is built: two builds on what looks like two machines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.generate.__main__ import PROJECT
from infra.image import contents
from infra.local_control_plane.cache import cache_directory


def build(folder: Path, path: str, umask: int, **environment: str) -> str:
    """Builds the image of a copy of the project in `folder`, and returns the last line of the output.

    Packages and modules come from the caches of this machine; the helm program is linked anew.
    """
    project, home = folder / "project", folder / "home"
    for name in ("pyproject.toml", *map(str, contents.sources(PROJECT))):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PROJECT / name, project / name)
    home.mkdir()
    cache = folder / "cache"
    cache.mkdir()
    packages = cache_directory() / "image"
    packages.mkdir(parents=True, exist_ok=True)
    (cache / "image").symlink_to(packages)
    shared = {"CAPI_FUNCTIONS_CACHE": str(cache)}
    for variable, command in (
        ("GOCACHE", ["go", "env", "GOCACHE"]),
        ("GOMODCACHE", ["go", "env", "GOMODCACHE"]),
        ("UV_CACHE_DIR", [str(Path(sys.executable).with_name("uv")), "cache", "dir"]),
    ):
        shared[variable] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        [sys.executable, "-m", "infra.image", "build"],
        cwd=project,
        env={**kept, **shared, "HOME": str(home), "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
        umask=umask,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


def test_two_machines_build_the_same_image(tmp_path: Path, *, exhaustive: bool) -> None:
    if not exhaustive:
        pytest.skip("takes minutes: `make test-all` runs it")
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go in PATH")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "go").symlink_to(go)
    here = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    first = build(tmp_path / "first", here, 0o022, VIRTUAL_ENV=str(Path(sys.executable).parents[1]), TZ="UTC")
    elsewhere = {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "7", "GOAMD64": "v3", "GOFLAGS": "-mod=mod"}
    second = build(tmp_path / "a" / "second", f"{programs}:/usr/bin:/bin", 0o077, **elsewhere)
    assert first.rpartition(", ")[2].startswith("sha256:"), first
    assert first == second
