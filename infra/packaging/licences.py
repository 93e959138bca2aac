"""Collects the licences of the Go modules that executables contain, from the sources they were built of."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from infra.local_control_plane.cache import Progress
from infra.local_control_plane.modules import SourceNotFound

_FILES = re.compile(r"(licen[cs]e|copying|notice|patents)([.-].*)?", re.IGNORECASE)
_LOCAL = "(devel)"


class NotOfGo(Exception):
    """An executable has no list of Go modules."""


def of_programs(programs: Iterable[Path], progress: Progress) -> dict[str, Path]:
    """Returns the licence files of all modules in executables, as `module@version/file`.

    Sources that are no longer in Go's cache are downloaded. A module without a licence is reported as progress.

    Raises SourceNotFound: there is no Go, or a source cannot be downloaded.
    """
    read = ""
    for program in programs:
        try:
            read += _run("go", "version", "-m", str(program))
        except NotOfGo:
            progress(f"{program} is not built by Go: its licences are not known")
    wanted = sorted(modules_in(read))
    cache, root = json.loads(_run("go", "env", "-json", "GOMODCACHE", "GOROOT")).values()
    found = {f"go/{file.name}": file for file in _licences(Path(root))}
    for module, version in wanted:
        folder = Path(cache, f"{escaped(module)}@{escaped(version)}")
        if not folder.is_dir():
            progress(f"downloading {module}@{version}")
            folder = Path(json.loads(_run("go", "mod", "download", "-json", f"{module}@{version}"))["Dir"])
        files = {f"{module}@{version}/{file.name}": file for file in _licences(folder)}
        if not files:
            progress(f"{module}@{version} has no licence in {folder}")
        found |= files
    return found


def modules_in(output: str) -> set[tuple[str, str]]:
    """Returns modules and versions from the output of `go version -m`; a replacement takes its module's place."""
    found: list[tuple[str, str]] = []
    for line in output.splitlines():
        match line.split("\t")[1:4]:
            case ["mod" | "dep", module, version]:
                found.append((module, version))
            case ["=>", module, version]:
                found[-1] = module, version
    return {(module, version) for module, version in found if version != _LOCAL}


def escaped(path: str) -> str:
    """Returns a path or version as Go's cache writes it: `!` and a small letter for a capital one."""
    return re.sub("[A-Z]", lambda letter: f"!{letter[0].lower()}", path)


def _licences(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.iterdir()) if _FILES.fullmatch(file.name) and file.is_file())


def _run(*command: str) -> str:
    try:
        return subprocess.run(
            command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        ).stdout
    except OSError as error:
        raise SourceNotFound(f"Go is needed to find licences: {error}") from error
    except subprocess.CalledProcessError as error:
        if "unrecognized file format" in error.stderr:
            raise NotOfGo from error
        raise SourceNotFound(
            f"`{' '.join(command[:4])}` failed: {error.stderr.strip() or error.stdout.strip()}"
        ) from error
