"""The package `cluster-api.zip`: executables and components for machines without Go and without network.

The package of one platform holds bin/, components/, licenses/, and two files about these: package.json with platform
and versions, and SHA512SUMS. It is unpacked into the cache once, aside, and every file is checked against its digest.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.local_control_plane.archives import (
    LARGEST,
    LARGEST_UNPACKED,
    SUMS,
    UnusableArchive,
    install,
    sha512,
    unusable,
)
from infra.local_control_plane.binaries import BinaryNotFound, CacheUnusable, this_platform
from infra.local_control_plane.cache import Progress, cache_directory, locked, partial
from infra.local_control_plane.processes import command_lines
from infra.local_control_plane.selectors import Selector, parse_version
from shared.semver import Version

FORMAT: Final = 1
DESCRIPTION: Final = "package.json"
BIN: Final = "bin"
COMPONENTS: Final = "components"

_LARGEST_LIST = 4 * 1024 * 1024
_LINE = re.compile(r"([0-9a-f]{128})  ((?:bin|components|licenses)(?:/(?!\.)[\w.@+!~-]+)+|package\.json)", re.ASCII)
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Package:
    """An unpacked package.

    Attributes:
        archive: The file that it comes from.
        folder: Where it is unpacked.
        digests: The sha512 of each file, by path.
    """

    archive: Path
    folder: Path
    digests: dict[str, str]

    @property
    def components(self) -> Path:
        """The folder with the components of providers, laid out like the downloads of a GitHub host."""
        return self.folder / COMPONENTS

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the executables by name, where they are known."""
        found = json.loads((self.folder / DESCRIPTION).read_text()).get("versions")
        return {str(name): str(version) for name, version in found.items()} if isinstance(found, dict) else {}

    @property
    def bin(self) -> Path:
        """The folder of the executables."""
        return self.folder / BIN

    @property
    def programs(self) -> list[str]:
        """The names of the executables."""
        return [path.removeprefix(f"{BIN}/") for path in self.digests if path.startswith(f"{BIN}/")]

    def executables(self, names: Collection[str]) -> dict[str, Path]:
        """Returns executables by name, after a check of their digests. Raises BinaryNotFound."""
        if missing := [name for name in names if f"{BIN}/{name}" not in self.digests]:
            raise BinaryNotFound(
                f"{self.archive} does not contain {', '.join(missing)}; `capi-functions local package` builds a "
                "package, and its option --controllers adds controllers"
            )
        found = {name: self.bin / name for name in names}
        try:
            changed = [path for name, path in found.items() if sha512(path) != self.digests[f"{BIN}/{name}"]]
        except OSError as error:
            raise BinaryNotFound(f"{self.archive} is not unpacked completely: {error}; delete {self.folder}") from error
        if changed:
            raise BinaryNotFound(f"{changed[0]}, unpacked from {self.archive}, was changed; delete {self.folder}")
        return found


def opened(archive: Path, *, progress: Progress) -> Package:
    """Returns a package, after unpacking it into the cache unless that has been done before.

    It stays unpacked until the end of this process and of all processes that run its executables.

    Raises BinaryNotFound, with the file and the remedy, if it is truncated, changed, for another platform, or no
    package.
    """
    try:
        with _reading(archive) as zipped:
            _check_platform(_description(zipped))
            listed = _read(zipped, SUMS)
            digests = _digests(listed)
            folder = _root() / hashlib.sha512(listed).hexdigest()[:16]
            folder.parent.mkdir(parents=True, exist_ok=True)
            with locked(folder.parent / ".lock", f"unpacks {archive}", progress):
                if not folder.is_dir():
                    progress(f"unpacking {archive}")
                    with partial(folder) as part:
                        _unpack(zipped, digests, part)
                        os.replace(part, folder)
                # It stays open, because its lock shows that this process may be about to start the executables.
                fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH)
    except OSError as error:
        raise CacheUnusable(error) from error
    except UnusableArchive as error:
        raise BinaryNotFound(
            f"{archive} cannot be used: {error}; copy the file again, or build one for {this_platform()} with "
            "`capi-functions local package`"
        ) from error
    return Package(archive, folder, digests)


def unpacked() -> dict[Path, Version]:
    """Returns the folders of unpacked packages in the cache, with their version of Kubernetes."""
    return {path: version for path in sorted(_root().glob("[!.]*")) if (version := _kubernetes_version(path))}


def remove(selector: Selector, *, progress: Progress) -> list[Path]:
    """Deletes the unpacked packages whose version of Kubernetes matches, and the remains of killed unpackings.

    Returns the deleted folders. A folder in use stays, and `progress` receives a line about it. Raises OSError.
    """
    if not _root().is_dir():
        return []
    removed = []
    with locked(_root() / ".lock", "unpacks a package", progress):
        for left in _root().glob(".*.partial"):
            shutil.rmtree(left)
        for folder in [path for path, version in unpacked().items() if selector.matches(version)]:
            if _in_use(folder):
                progress(f"{folder} stays: it is in use")
                continue
            with partial(folder) as aside:
                os.replace(folder, aside)
            removed.append(folder)
    return removed


def sums_of(archive: Path) -> bytes:
    """Returns SHA512SUMS of an undamaged package; b"" for another file. Reads all of it."""
    try:
        with _reading(archive) as zipped:
            return b"" if zipped.testzip() else _read(zipped, SUMS)
    except (UnusableArchive, OSError):
        return b""


def _root() -> Path:
    return cache_directory() / "packages"


def _kubernetes_version(folder: Path) -> Version | None:
    try:
        return parse_version(json.loads((folder / DESCRIPTION).read_text())["versions"]["kube-apiserver"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _in_use(folder: Path) -> bool:
    """Returns whether a process has opened the package, or runs an executable of it; supervisors name these, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return any(f"{folder}/" in command for command in command_lines())


@contextmanager
def _reading(archive: Path) -> Iterator[zipfile.ZipFile]:
    """Opens a package. Raises UnusableArchive, also for errors within the block."""
    with unusable():
        if not zipfile.is_zipfile(archive):  # its directory is at its end
            raise UnusableArchive(f"it is truncated, or not a zip archive ({archive.stat().st_size} bytes)")
        with zipfile.ZipFile(archive) as zipped:
            yield zipped


def _description(zipped: zipfile.ZipFile) -> object:
    try:
        return json.loads(_read(zipped, DESCRIPTION))
    except RecursionError as error:
        raise UnusableArchive(f"{DESCRIPTION} is nested too deeply") from error


def _check_platform(description: object) -> None:
    """Raises UnusableArchive if a package is for another platform, or has another format."""
    known = description if isinstance(description, dict) else {}
    if known.get("format") != FORMAT:
        raise UnusableArchive(f"its format is {known.get('format')!r}, and this program supports {FORMAT}")
    if known.get("platform") != this_platform():
        raise UnusableArchive(f"it is for {known.get('platform')!r}, and this machine is {this_platform()}")


def _read(zipped: zipfile.ZipFile, name: str) -> bytes:
    if name not in zipped.NameToInfo:
        raise UnusableArchive(f"it is not a package, because it does not contain {name}")
    with zipped.open(name) as file:
        content = file.read(_LARGEST_LIST + 1)
    if len(content) > _LARGEST_LIST:
        raise UnusableArchive(f"{name} is larger than {_LARGEST_LIST} bytes")
    return content


def _digests(listed: bytes) -> dict[str, str]:
    """Returns the digests by path. Raises UnusableArchive for a line with another path than a package has."""
    found = {}
    for line in listed.decode().splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise UnusableArchive(f"{SUMS} has the line {line[:200]!r}")
        found[match[2]] = match[1]
    return found


def _unpack(zipped: zipfile.ZipFile, digests: dict[str, str], folder: Path) -> None:
    """Unpacks the listed files into a folder, executable ones in bin. Everything else in the archive is ignored."""
    left = LARGEST_UNPACKED
    for name, wanted in digests.items():
        if name not in zipped.NameToInfo:
            raise UnusableArchive(f"{name} is missing")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha512()
        with partial(path) as part:
            with zipped.open(name) as source, part.open("wb") as file:
                while chunk := source.read(_CHUNK):
                    left -= len(chunk)
                    if file.tell() > LARGEST or left < 0:
                        raise UnusableArchive(f"its content is larger than {LARGEST_UNPACKED} bytes")
                    digest.update(chunk)
                    file.write(chunk)
            if digest.hexdigest() != wanted:
                raise UnusableArchive(f"{name} was changed: its sha512 differs from {SUMS}")
            if name.startswith(f"{BIN}/"):
                install(part, path)
            else:
                os.replace(part, path)
