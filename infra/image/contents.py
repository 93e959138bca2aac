"""The files that the project adds to a Python: dependencies, the helm program, and its own, all below /app."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
REQUIREMENTS = Path(__file__).with_name("requirements.txt")

HOME = "app"
"""The folder of the project in the image, also its working directory."""
PACKAGES = f"{HOME}/packages"
PATHS = f"/{PACKAGES}\n/{HOME}\n"
"""The path for Python: the content of a file *.pth."""
PROGRAMS = f"{HOME}/bin"

_SOURCES = ("events", "functions", "infra", "shared")
_GENERATED = re.compile(r"/__pycache__/|/\.|\.partial$")
_INTERPRETER = "#!/usr/local/bin/python3\n"
_PROGRAMS = ("capi-functions", "gunicorn")
_UNUSED = (
    "kubernetes/aio",  # the asynchronous half of the client: 34 MB
    "**/__pycache__",
    "**/*.pyi",
    "bin",
)
"""The files of dependencies that the image leaves out."""
_UV_PLATFORMS = {"amd64": "x86_64-manylinux_2_36", "arm64": "aarch64-manylinux_2_36"}


class ContentError(Exception):
    """Files of the image could not be made; the message says which, and why."""


def write_dependencies(root: Path, architecture: str, python: str) -> None:
    """Installs the dependencies and gunicorn's program below `root`. Raises ContentError, with uv's message.

    They are wheels that are pinned with their digests, so that nothing is built and no foreign code runs.
    """
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        raise ContentError("uv is needed to install the dependencies: pip install uv")
    options = ("--no-deps", "--require-hashes", "--only-binary=:all:", "--link-mode=copy", "--no-compile-bytecode")
    target = root / PACKAGES
    machine = (f"--python-version={python}", f"--python-platform={_UV_PLATFORMS[architecture]}")
    where = (f"--target={target}", f"--requirement={REQUIREMENTS}")
    _run([uv, "pip", "install", "--quiet", *options, *machine, *where])
    for pattern in _UNUSED:
        for path in [*target.glob(pattern)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in ("INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"):
        for path in target.glob(f"*.dist-info/{name}"):
            path.unlink()
    (target / ".lock").unlink(missing_ok=True)
    for record in target.glob("*.dist-info/RECORD"):
        leave_out_missing(record, target)
    _write_programs(root, target)


def leave_out_missing(record: Path, target: Path) -> None:
    """Removes files that do not exist from a list of installed files.

    Among them are programs, whose digests in the list depend on the path of the Python that uv has found.
    """
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(line for line in lines if (target / next(csv.reader([line]))[0]).exists()))


def write_helm(root: Path, found: Path) -> Path:
    """Copies the helm program `found` below `root`, and returns its path there."""
    program = root / PROGRAMS / "helm"
    program.parent.mkdir(parents=True)
    shutil.copyfile(found, program)
    program.chmod(0o755)
    return program


def version() -> str:
    """Returns the version of the project."""
    return str(_project()["version"])


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    return project


def write_project(root: Path) -> None:
    """Writes the files of the project below `root`, and its package metadata: version and programs."""
    for path in sources(PROJECT):
        (root / HOME / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PROJECT / path, root / HOME / path)
    project = _project()
    name = project["name"].replace("-", "_")
    about = root / HOME / f"{name}-{project['version']}.dist-info"
    about.mkdir()
    fields = {"Metadata-Version": "2.1", "Name": project["name"], "Version": project["version"]}
    about.joinpath("METADATA").write_text("".join(f"{field}: {value}\n" for field, value in fields.items()))
    about.joinpath("entry_points.txt").write_text(_entry_points(project))
    _write_programs(root, root / HOME)


def sources(project: Path) -> list[Path]:
    """Returns the files of the project that belong into the image, relative to its folder. Raises ContentError.

    In a clone only tracked files count, because others may be secret, such as a forgotten kubeconfig.
    """
    if (project / ".git").exists():
        known = _run(["git", "-C", str(project), "ls-files", "-z", "--", *_SOURCES]).split("\0")
        return [Path(name) for name in known if (project / name).is_file()]
    found = (path.relative_to(project) for source in _SOURCES for path in (project / source).rglob("*"))
    return [path for path in found if (project / path).is_file() and not _GENERATED.search(f"/{path}")]


def compile_bytecode(folder: Path, interpreter: Sequence[str], environment: Mapping[str, str], root: Path) -> None:
    """Compiles all modules in `folder`. A container cannot write bytecode, and would compile them at each start.

    The bytecode is never compared with its source, whose time differs from build to build. It refers to the paths below
    `root` as if that was /. Syntax errors in files that nothing imports, such as templates, are ignored. Raises
    ContentError if there is no bytecode at all.
    """
    command = [*interpreter, "-m", "compileall", "-qq", "-j1", "--invalidation-mode=unchecked-hash"]
    paths = ["-s", str(root), "-p", "/", str(folder)]
    # The interpreter may be part of `root`: it must not cache the modules that it imports now.
    settings = {**environment, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, *paths], env=settings, check=False, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    if next(folder.rglob("*.pyc"), None) is None:
        raise ContentError(f"{interpreter[0]} compiled nothing in {folder}:\n{done.stderr.strip()}")


def _entry_points(project: Mapping[str, Any]) -> str:
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in groups.items()
    )


def _write_programs(root: Path, packages: Path) -> None:
    """Writes the `_PROGRAMS` that the packages in a folder declare."""
    folder = root / PROGRAMS
    folder.mkdir(parents=True, exist_ok=True)
    for distribution in distributions(path=[str(packages)]):
        for entry in distribution.entry_points.select(group="console_scripts"):
            if entry.name not in _PROGRAMS:
                continue
            program = folder / entry.name
            program.write_text(
                f"{_INTERPRETER}import sys\nfrom {entry.module} import {entry.attr}\nsys.exit({entry.attr}())\n"
            )
            program.chmod(0o755)


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise ContentError(f"`{' '.join(command[:3])}` failed:\n{done.stderr.strip()}")
    return done.stdout
