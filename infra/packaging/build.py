"""Builds a package: gathers its content, and writes it reproducibly.

The same content gives the same bytes: names are sorted, times and modes constant. Executables in the cache are not
built again, and a package that already has the content stays unchanged.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.local_control_plane import modules, package
from infra.local_control_plane.archives import SUMS, sha512
from infra.local_control_plane.binaries import locate, this_platform
from infra.local_control_plane.cache import Progress, cache_directory, locked, partial
from infra.local_control_plane.controllers import NAMES as CONTROLLERS
from infra.local_control_plane.modules import module_of

from . import licences
from .components import components

PLANE = ("etcd", "kube-apiserver", "helm")
MANAGERS = tuple(name for name, *_ in modules.MANAGERS)

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time that a zip can record
_CHUNK = 1 << 20

Content = Mapping[str, Path | bytes]
"""The files of a package, by path: a file, or its content."""


@dataclass(frozen=True)
class Built:
    """A package; `changed` shows whether it was written."""

    path: Path
    changed: bool


@dataclass(frozen=True)
class Added:
    """A user's additions to a package.

    Attributes:
        programs: Executables by name.
        versions: Their versions, where these are known.
        components: A folder with components of providers.
    """

    programs: Mapping[str, Path] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    components: Path | None = None


NOTHING = Added()


def gather(progress: Progress, *, controllers: bool = False, managers: bool = True, added: Added = NOTHING) -> Content:
    """Returns the content of a package for this machine's platform, in the versions that infra/binaries pins.

    Args:
        progress: Called with each line of progress.
        controllers: Whether it gets the controllers for `local up --controllers`.
        managers: Whether it gets the managers and components of Cluster API's providers.
        added: Additional content; a program replaces the pinned program of the same name.

    Raises:
        BinaryNotFound, SourceNotFound, ValueError, CalledProcessError, OSError: Something cannot be built or read.
    """
    names = [*PLANE, *(MANAGERS if managers else ()), *(CONTROLLERS if controllers else ())]
    names = [name for name in names if name not in added.programs]
    programs = {**locate(names, progress=progress, archives=(), assets=False), **added.programs}
    content: dict[str, Path | bytes] = {f"{package.BIN}/{name}": path for name, path in programs.items()}
    if managers:
        for version in sorted({module_of(name).version for name in MANAGERS}):
            content |= _below(components(version, progress), package.COMPONENTS)
    if added.components:
        content |= _below(added.components, package.COMPONENTS)
    progress("collecting licences")
    for place, file in licences.of_programs(programs.values(), progress).items():
        content[f"licenses/{place}"] = file
    versions = {**{name: module_of(name).version for name in names}, **added.versions}
    return content | {package.DESCRIPTION: _description(versions)}


def build(target: Path, content: Content, progress: Progress) -> Built:
    """Writes a package with this content to `target`, unless that has it already. Raises OSError."""
    sums = "".join(f"{_digest(content[name])}  {name}\n" for name in sorted(content)).encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    cache_directory().mkdir(parents=True, exist_ok=True)
    with locked(cache_directory() / ".package.lock", "writes a package", progress):
        if target.is_file() and package.sums_of(target) == sums:
            return Built(target, changed=False)
        progress(f"compressing {len(content)} files")
        with partial(target) as part:
            _write(part, {**content, SUMS: sums})
            os.replace(part, target)
    return Built(target, changed=True)


def _write(target: Path, content: Content) -> None:
    with target.open("wb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as zipped:
            for name, source in sorted(content.items()):
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.create_system = 3  # Unix
                entry.compress_type = zipfile.ZIP_DEFLATED
                mode = 0o755 if name.startswith(f"{package.BIN}/") else 0o644
                entry.external_attr = (stat.S_IFREG | mode) << 16
                if isinstance(source, bytes):
                    zipped.writestr(entry, source)
                    continue
                with source.open("rb") as data, zipped.open(entry, "w") as packed:
                    while chunk := data.read(_CHUNK):
                        packed.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def _description(versions: Mapping[str, str]) -> bytes:
    known = {"format": package.FORMAT, "platform": this_platform(), "versions": dict(sorted(versions.items()))}
    return (json.dumps(known, indent=2) + "\n").encode()


def _below(folder: Path, place: str) -> dict[str, Path]:
    return {f"{place}/{path.relative_to(folder)}": path for path in folder.rglob("*") if path.is_file()}


def _digest(source: Path | bytes) -> str:
    return hashlib.sha512(source).hexdigest() if isinstance(source, bytes) else sha512(source)
