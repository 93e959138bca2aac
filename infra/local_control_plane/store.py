"""The store of Kubernetes versions. Each has a folder with kube-apiserver, etcd and their digests, as in envtest.

A version is built in a temporary folder, which is renamed once it is complete, so that nobody sees a part of it.
Digests are in a file SHA512SUMS, and are checked at each use of a version.
"""

import os
import shutil
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from infra.local_control_plane.archives import SUMS, UnusableArchive, download, sha512, unpack, unusable
from infra.local_control_plane.binaries import (
    ENVTEST,
    EXECUTABLES,
    BinaryNotFound,
    CacheUnusable,
    locate,
    this_platform,
)
from infra.local_control_plane.cache import Progress, cache_directory, locked, partial
from infra.local_control_plane.modules import module_of
from infra.local_control_plane.selectors import Selector, parse_version
from shared.semver import Version

INDEX: Final = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
"""The released archives with their digests."""

_OPTIONAL = ("kubectl",)  # in envtest's archives
_LARGEST_INDEX = 8 * 1024 * 1024
_TIMEOUT = 4.0
_MACHINES = {62: "linux-amd64", 183: "linux-arm64"}  # e_machine of ELF
_FOREIGN = {b"MZ": "windows", b"\xcf\xfa\xed\xfe": "darwin", b"\xca\xfe\xba\xbe": "darwin"}

State = Literal["installed", "download", "build"]


@dataclass(frozen=True)
class Download:
    """An archive of one version for one platform; `digest` is `sha512:hex`."""

    url: str
    digest: str


def folder() -> Path:
    """Returns the folder of the store, which may not exist."""
    return cache_directory() / "versions"


def installed() -> dict[Version, Path]:
    """Returns the folders of the versions in the store."""
    return {version: path for path in folder().glob("v*") if (version := _version_of(path))}


def use(
    selector: Selector, *, progress: Progress, index: str = INDEX, installed_only: bool = False
) -> tuple[Version, Path]:
    """Returns the newest version that matches, and the folder of its executables, which may be downloaded or built.

    An installed version suffices, unless the selector requests a newer one. The version that infra/binaries pins is
    built if no archive and no installed version matches. Executables in the cache for planes without a selector count
    as installed.

    Raises BinaryNotFound if no version matches, a version cannot be installed, or one of its files was changed.
    """
    present = installed()
    local = {*present, *_cached()}
    newest = selector.newest(local)
    archives: Mapping[Version, Download] = {}
    if not (installed_only or selector.on_disk) and (newest is None or selector.ask):
        archives = _archives(index, progress)
        newest = selector.newest({*local, *archives}) or selector.newest([_pinned()])
    if newest is None:
        there = ", ".join(map(str, sorted(local))) or "none"
        raise BinaryNotFound(f"no version of kube-apiserver matches {selector.text}; installed: {there}; {_WAYS}")
    if newest not in present:
        if newest in archives:
            _install_archive(newest, archives[newest], progress)
        else:
            _install_local(newest, progress)
    return newest, verified(folder() / str(newest))


def versions(
    selector: Selector, *, progress: Progress, index: str = INDEX, installed_only: bool = False
) -> dict[Version, State]:
    """Returns the versions that match: installed ones, then others, newest first."""
    found: dict[Version, State] = {_pinned(): "build"}
    if installed_only or selector.on_disk:
        found = {}
    else:
        found |= dict.fromkeys(_archives(index, progress), "download")
    found |= dict.fromkeys([*_cached(), *installed()], "installed")
    matching = sorted(filter(selector.matches, found), reverse=True)
    return {version: found[version] for version in sorted(matching, key=lambda one: found[one] != "installed")}


def sideload(version: Version, archive: Path, *, progress: Progress) -> Path:
    """Puts the executables of an archive (tar.gz or zip) in the store, in place of the same version.

    Raises BinaryNotFound, which names the file, if it is no such archive, or for another platform.
    """

    def fill(part: Path) -> None:
        _unpack(archive, part)

    return _add(version, str(archive), fill, progress, replace=True)


def remove(selector: Selector, *, progress: Progress) -> list[Version]:
    """Deletes the versions in the store that match. Executables that were built stay. Raises OSError."""
    found = sorted(filter(selector.matches, installed()))
    for version in found:
        with locked(folder() / ".lock", f"installs {version}", progress):
            _discard(folder() / str(version))
    return found


def verified(path: Path) -> Path:
    """Returns the folder if its files have the digests in its SHA512SUMS. Raises BinaryNotFound."""
    try:
        lines = [line.partition("  ") for line in (path / SUMS).read_text().splitlines()]
        listed = {name: digest for digest, _, name in lines}
        changed = [name for name in EXECUTABLES if name not in listed]
        changed += [name for name, digest in listed.items() if os.sep in name or sha512(path / name) != digest]
    except (OSError, ValueError) as error:
        raise BinaryNotFound(f"{path} is damaged: {error}; {_remedy(path)}") from error
    if changed:
        raise BinaryNotFound(f"{path / changed[0]} is damaged: its sha512 differs from {SUMS}; {_remedy(path)}")
    return path


def refuse_unless_controllers_work_with(version: Version) -> None:
    """Raises BinaryNotFound if the controllers, which have the pinned version, do not work with this API server.

    Kubernetes supports controllers that are as old as their API server, or one minor version older.
    """
    controllers = _pinned()
    newest = controllers.major, controllers.minor + 1
    if not controllers.series <= version.series <= newest:
        raise BinaryNotFound(
            f"there are no controllers for {version}: the controllers are {controllers}, and must have the minor "
            "version of their API server or the version before"
        )


def write_sums(path: Path) -> None:
    """Writes SHA512SUMS of all files in a folder. Raises OSError."""
    lines = [f"{sha512(file)}  {file.name}\n" for file in sorted(path.iterdir())]
    (path / SUMS).write_text("".join(lines))


def downloads(index: object, platform: str) -> dict[Version, Download]:
    """Returns the archives for a platform in the content of an index; entries that are not valid are left out."""
    releases = index.get("releases") if isinstance(index, dict) else None
    found = {}
    for name, files in (releases if isinstance(releases, dict) else {}).items():
        entry = files.get(f"envtest-{name}-{platform}.tar.gz") if isinstance(files, dict) else None
        try:
            found[parse_version(name)] = _download_of(entry)
        except (TypeError, KeyError, ValueError, AttributeError):
            continue
    return found


def platform_of(executable: bytes) -> str:
    """Returns the platform of an executable from its first 20 bytes; "" if they do not show it, as for a script."""
    if executable.startswith(b"\x7fELF"):
        return _MACHINES.get(int.from_bytes(executable[18:20], "little"), "linux on another machine")
    return next((name for magic, name in _FOREIGN.items() if executable.startswith(magic)), "")


def refuse_foreign(files: Mapping[str, Path]) -> None:
    """Raises UnusableArchive if an executable is for another platform than this machine's."""
    for name, path in files.items():
        with path.open("rb") as file:
            platform = platform_of(file.read(20))
        if platform not in ("", this_platform()):
            raise UnusableArchive(f"{name} in it is for {platform}, and this machine is {this_platform()}")


_WAYS = (
    "`capi-functions local binaries list` prints what can be installed, "
    "and `capi-functions local binaries sideload VERSION ARCHIVE` installs an archive of envtest"
)


def _remedy(path: Path) -> str:
    return f"`capi-functions local binaries cleanup {path.name}` removes it; then install it again"


def _version_of(path: Path) -> Version | None:
    try:
        return parse_version(path.name)
    except ValueError:
        return None


def _pinned() -> Version:
    return parse_version(module_of("kube-apiserver").version)


def _cached() -> dict[Version, dict[str, Path]]:
    """Returns the versions that were built or downloaded for planes without a selector."""
    built = {name: module_of(name).cache / name for name in EXECUTABLES}
    archived = {name: ENVTEST.cache / name for name in EXECUTABLES}
    found = {_pinned(): built, parse_version(ENVTEST.version): archived}
    return {version: paths for version, paths in found.items() if all(path.is_file() for path in paths.values())}


def _download_of(entry: Any) -> Download:
    url, digest = entry["selfLink"], entry["hash"]
    if urlsplit(url).scheme not in ("https", "http") or len(bytes.fromhex(digest)) != 64:
        raise ValueError(url)
    return Download(url, f"sha512:{digest.lower()}")


def _archives(index: str, progress: Progress) -> dict[Version, Download]:
    """Returns the available archives; none, after a line of progress, if the index cannot be read."""
    from shared import bounded_yaml

    if urlsplit(index).scheme not in ("https", "http", "file"):
        raise BinaryNotFound(f"{index} is not a URL of an index")
    try:
        with unusable(), urllib.request.urlopen(index, timeout=_TIMEOUT) as response:  # noqa: S310
            content = response.read(_LARGEST_INDEX + 1)
        if len(content) > _LARGEST_INDEX:
            raise UnusableArchive(f"larger than {_LARGEST_INDEX} bytes")
        return downloads(bounded_yaml.load(content.decode()), this_platform())
    except (UnusableArchive, OSError, UnicodeDecodeError, bounded_yaml.YAMLError) as error:
        progress(f"the index {index} cannot be read: {error}")
        return {}


def _install_archive(version: Version, archive: Download, progress: Progress) -> None:
    def fill(part: Path) -> None:
        progress(f"downloading {archive.url}")
        with partial(folder() / "archive") as file:
            download(archive.url, file, archive.digest)
            _unpack(file, part)

    _add(version, archive.url, fill, progress)


def _install_local(version: Version, progress: Progress) -> None:
    found = _cached().get(version) or locate(EXECUTABLES, progress=progress, archives=(), assets=False)

    def fill(part: Path) -> None:
        for name, path in found.items():
            try:
                os.link(path, part / name)
            except OSError:  # another file system
                shutil.copy2(path, part / name)

    _add(version, "the cache", fill, progress)


def _unpack(archive: Path, part: Path) -> None:
    found = unpack(archive, (*EXECUTABLES, *_OPTIONAL), part)
    if missing := [name for name in EXECUTABLES if name not in found]:
        raise UnusableArchive(f"it does not contain {' and '.join(missing)}")
    refuse_foreign({name: part / name for name in found})


def _add(
    version: Version, source: str, fill: Callable[[Path], None], progress: Progress, *, replace: bool = False
) -> Path:
    """Adds a version whose files `fill` writes to a folder. Raises BinaryNotFound."""
    target = folder() / str(version)
    try:
        with unusable():
            folder().mkdir(parents=True, exist_ok=True)
            with locked(folder() / ".lock", f"installs {version}", progress):
                if replace or not target.is_dir():
                    with partial(target) as part:
                        part.mkdir()
                        fill(part)
                        write_sums(part)
                        _discard(target, part)
    except OSError as error:
        raise CacheUnusable(error) from error
    except UnusableArchive as error:
        raise BinaryNotFound(f"{version} is not installed from {source}: {error}") from error
    return target


def _discard(target: Path, replacement: Path | None = None) -> None:
    """Renames a version, puts the replacement in its place, and then deletes the renamed version, which is slow."""
    with partial(target.with_name(f"{target.name}.removed")) as removed:
        if target.exists():
            os.replace(target, removed)
        if replacement:
            os.replace(replacement, target)
