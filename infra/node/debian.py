"""Programs from Debian packages: installed on this machine, else from packages that are only downloaded.

apt checks signatures and digests. It unpacks packages, with the libraries that this machine lacks, to a folder in the
cache that is named after their digests. In the node's root, the folder's /usr lies over the machine's /usr.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.local_control_plane.cache import Progress, cache_directory, locked, partial

PROGRAMS = {
    "containerd": "usr/bin/containerd",
    "runc": "usr/sbin/runc",
    "containernetworking-plugins": "usr/lib/cni/bridge",
    "nftables": "usr/sbin/nft",
}
"""A file of each package that a node needs, relative to the root."""


class PackagesNotFound(Exception):
    """Packages cannot be downloaded; the message ends with the output of apt-get."""


def absent(root: Path | None = None, programs: Mapping[str, str] = PROGRAMS) -> list[str]:
    """Returns the packages that are neither on this machine nor unpacked in `root`, sorted."""
    roots = [Path("/"), *([root] if root else [])]
    return sorted(name for name, file in programs.items() if not any((path / file).exists() for path in roots))


def downloadable() -> bool:
    """Returns whether this machine can download packages."""
    return bool(shutil.which("apt-get") and shutil.which("dpkg-deb"))


def present(programs: Mapping[str, str] = PROGRAMS) -> Path | None:
    """Returns the folder with the unpacked packages that this machine lacks, None before any was unpacked."""
    chosen = _chosen(absent(programs=programs))
    return chosen.resolve() if chosen.is_symlink() and not absent(chosen.resolve(), programs) else None


def unpacked(progress: Progress, programs: Mapping[str, str] = PROGRAMS) -> Path | None:
    """Returns the folder with the unpacked packages that this machine lacks, None if it lacks none.

    `programs` has a file of each package, as `PROGRAMS` has. Raises PackagesNotFound.
    """
    wanted = absent(programs=programs)
    if not wanted:
        return None
    chosen = _chosen(wanted)
    folder = chosen.parent
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock", "downloads Debian packages", progress):
        if found := present(programs):
            return found
        progress(f"downloading {', '.join(wanted)} of Debian")
        with partial(folder / "packages") as packages:
            _download(wanted, packages)
            target = _unpack(packages, folder)
        if left := absent(target, programs):
            files = ", ".join(programs[name] for name in left)
            raise PackagesNotFound(f"the packages of Debian do not contain {files}")
        chosen.unlink(missing_ok=True)
        chosen.symlink_to(target.name)
        return target


def _chosen(wanted: Sequence[str]) -> Path:
    """Returns the symbolic link to the folder of these packages."""
    name = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:12]
    return cache_directory() / "debian" / f"{name}.current"


def _download(names: Sequence[str], folder: Path) -> None:
    """Downloads packages with their dependencies that are not installed; installs nothing."""
    (folder / "partial").mkdir(parents=True)
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True)
    options = [f"--option=Dir::Cache::archives={folder}"]
    install = ["install", "--yes", "--download-only", "--no-install-recommends", *names]
    # Lists on the machine save half a minute; fresh lists are needed if they are old or missing.
    fresh = [*options, f"--option=Dir::State::lists={lists}"]
    if not _apt_get(*options, *install):
        return
    if error := _apt_get(*fresh, "update") or _apt_get(*fresh, *install):
        raise PackagesNotFound(f"{', '.join(names)} cannot be downloaded: {error}")


def _apt_get(*arguments: str) -> str:
    """Returns why apt-get failed, "" if it succeeded."""
    done = subprocess.run(
        ["apt-get", "--quiet", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return (done.stderr or done.stdout).strip() if done.returncode else ""


def _unpack(packages: Path, folder: Path) -> Path:
    archives = sorted(packages.glob("*.deb"))
    digest = hashlib.sha256()
    for archive in archives:
        digest.update(archive.read_bytes())
    target = folder / digest.hexdigest()[:16]
    if target.is_dir():
        return target
    with partial(target) as part:
        # If /bin of a machine is /usr/bin, files in /bin belong to /usr/bin.
        (part / "usr").mkdir(parents=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            if Path("/", name).is_symlink():
                (part / "usr" / name).mkdir()
                (part / name).symlink_to(f"usr/{name}")
        for archive in archives:
            # Its own --extract would replace the symbolic links above by folders.
            packed = subprocess.run(["dpkg-deb", "--fsys-tarfile", archive], capture_output=True, check=False)
            tar = ["tar", "--extract", "--keep-directory-symlink", "--directory", str(part)]
            for done in packed, subprocess.run(tar, input=packed.stdout, capture_output=True, check=False):
                if done.returncode:
                    raise PackagesNotFound(f"{archive.name} cannot be unpacked: {done.stderr.decode().strip()}")
        part.rename(target)
    return target
