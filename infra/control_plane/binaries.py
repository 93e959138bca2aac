"""Executables that no Python package brings: found, downloaded, or built from the modules in infra/binaries.

In this order: the directory $KUBEBUILDER_ASSETS; our cache; for etcd and kube-apiserver the official envtest
archive of a pinned version and digest; `go build` with the versions pinned in infra/binaries/<set>/go.mod.
What was built or unpacked is in the cache and is found there from then on. `python -m` builds all there are.
"""

import hashlib
import http.client
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.control_plane.modules import MODULES, Module, that_builds
from infra.control_plane.once import REPORT_EVERY, Progress, alone, cache_directory, partial

_CONNECT = 4.0  # seconds; the host may be out of reach, and there is another way
_LARGEST = 400 * 1024 * 1024  # bytes of one executable, or of an archive


class BinaryNotFound(Exception):
    """An executable is nowhere to be had; the message lists what was tried, and what to do."""


class _Unavailable(Exception):
    """One way to get an executable does not work."""


@dataclass(frozen=True)
class Archive:
    """A released tar.gz that holds `names`; `sha512` by platform such as "linux-amd64"."""

    version: str
    url: str  # with {version} and {platform}
    names: tuple[str, ...]
    sha512: Mapping[str, str]

    @property
    def cache(self) -> Path:
        return cache_directory() / "binaries" / "envtest" / self.version


ENVTEST = Archive(
    version="v1.30.0",
    url="https://github.com/kubernetes-sigs/controller-tools/releases/download/"
    "envtest-{version}/envtest-{version}-{platform}.tar.gz",
    names=("etcd", "kube-apiserver"),
    sha512={
        "linux-amd64": "d53870e1a6c9b3b50366489a9387f4e254c664955e932e3e25e2088bb437b270"
        "bfab75d241b50849233f9a34bb1f08b41567ebb81ea29352104ae0f5b1cb9e88",
        "linux-arm64": "140748efaa394598f50175e809cd53896881ed046d93ebdfbd5442100f68b3d8"
        "d51fd22f8cf1ae06a6e43473897b789df0db6e0ae6c45c8320b000d5ee900005",
    },
)


def locate(
    names: Sequence[str], *, progress: Progress, build: bool = True, archive: Archive | None = ENVTEST
) -> dict[str, Path]:
    """The paths of the executables `names`, got first if need be, which may take minutes.

    `progress` gets a line whenever there is something to tell. Nothing is built unless `build`, nothing is
    downloaded if `archive` is None. Raises BinaryNotFound naming all that is missing, and ValueError for a
    name that is not ours.
    """
    found: dict[str, Path] = {}
    missing: list[str] = []
    for name in names:
        tried: list[str] = []
        for way in _ways(name, progress, build, archive):
            try:
                found[name] = way()
                break
            except _Unavailable as reason:
                tried.append(f"  - {reason}")
        else:
            missing.append("\n".join([f"{name} was not found:", *tried, explain(name)]))
    if missing:
        raise BinaryNotFound("\n\n".join(missing))
    return found


def explain(name: str) -> str:
    """What a user can do to get the executable `name`. Raises ValueError if it is not one of ours."""
    module = that_builds(name)
    go = re.search(r"^go (\d+\.\d+)", (module.path / "go.mod").read_text(), re.M)
    ways = [
        f"set KUBEBUILDER_ASSETS to a directory that holds an executable file {name}",
        f"install Go >= {go[1] if go else '1.26'}: then {name} {module.version} is built once",
    ]
    if name in ENVTEST.names:
        ways.append(f"run once with network access: then {name} {ENVTEST.version} is downloaded")
    return "One of these helps:\n" + "\n".join(f"  * {way}" for way in ways)


def _ways(name: str, progress: Progress, build: bool, archive: Archive | None) -> Iterator[Callable[[], Path]]:
    module = that_builds(name)
    archived = archive if archive and name in archive.names else None
    yield lambda: _from_assets(name)
    yield lambda: _from_cache(name, [module.cache, *([archived.cache] if archived else [])])
    if archived:
        yield lambda: _from_archive(name, archived, progress)
    if build:
        yield lambda: _from_source(name, module, progress)


def _from_assets(name: str) -> Path:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        raise _Unavailable("KUBEBUILDER_ASSETS is not set")
    path = Path(assets).absolute() / name
    if not _executable(path):
        raise _Unavailable(f"KUBEBUILDER_ASSETS: {path} is not an executable file")
    return path


def _from_cache(name: str, directories: Sequence[Path]) -> Path:
    for directory in directories:
        if _executable(directory / name):
            return directory / name
    raise _Unavailable(f"not in the cache: {', '.join(map(str, directories))}")


def _from_archive(name: str, archive: Archive, progress: Progress) -> Path:
    target = archive.cache / name
    system = f"{platform.system().lower()}-" + {"x86_64": "amd64", "aarch64": "arm64"}.get(
        platform.machine(), platform.machine()
    )
    if system not in archive.sha512:
        raise _Unavailable(f"there is no archive for {system}")
    url = archive.url.format(version=archive.version, platform=system)
    try:
        archive.cache.mkdir(parents=True, exist_ok=True)
        with alone(archive.cache / ".lock", f"downloads {url}", progress):
            if not _executable(target):
                progress(f"downloading {url}")
                with partial(archive.cache / "archive.tar.gz") as download:
                    _download(url, download, archive.sha512[system])
                    _unpack(download, archive.names, archive.cache)
    except (OSError, EOFError, http.client.HTTPException, tarfile.TarError, _Unavailable) as error:
        progress(f"{url} is of no use: {error}")
        raise _Unavailable(f"{url}: {error}") from error
    if not _executable(target):
        raise _Unavailable(f"{url} does not hold {name}")
    return target


def _download(url: str, target: Path, sha512: str) -> None:
    digest = hashlib.sha512()
    with urllib.request.urlopen(url, timeout=_CONNECT) as response, target.open("wb") as file:  # noqa: S310
        while chunk := response.read(1 << 20):
            digest.update(chunk)
            file.write(chunk)
            if file.tell() > _LARGEST:
                raise _Unavailable(f"larger than {_LARGEST} bytes")
    if digest.hexdigest() != sha512:
        raise _Unavailable(f"its sha512 is {digest.hexdigest()}, not {sha512}")


def _unpack(archive: Path, names: Sequence[str], directory: Path) -> None:
    """Only regular files are taken, by their base name: what else the archive holds has no effect."""
    with tarfile.open(archive, "r:gz") as members:
        for member in members:
            name = Path(member.name).name
            if not member.isreg() or name not in names:
                continue
            if member.size > _LARGEST:
                raise _Unavailable(f"{member.name} is larger than {_LARGEST} bytes")
            content = members.extractfile(member)
            assert content is not None  # it is a regular file
            with content, partial(directory / name) as part:
                with part.open("wb") as file:
                    shutil.copyfileobj(content, file)
                _install(part, directory / name)


def _from_source(name: str, module: Module, progress: Progress) -> Path:
    target = module.cache / name
    if not shutil.which("go"):
        raise _Unavailable("cannot be built: there is no `go` in PATH")
    try:
        module.cache.mkdir(parents=True, exist_ok=True)
        with alone(module.cache / f".{name}.lock", f"builds {name}", progress):
            if not _executable(target):
                with partial(target) as part:
                    _build(name, module, part, progress)
                    _install(part, target)
    except OSError as error:
        raise _Unavailable(f"cannot be built: {error}") from error
    return target


def _build(name: str, module: Module, output: Path, progress: Progress) -> None:
    """Interrupted, it goes on where it was: go keeps every package that it has compiled."""
    command = ["go", "build", "-v", "-trimpath", f"-ldflags={module.linker_flags}", "-o", str(output)]
    environment = {**os.environ, "GOWORK": "off"}
    started = time.monotonic()
    progress(f"building {name} {module.version} (once; this takes minutes)")
    with subprocess.Popen(
        [*command, module.packages[name]],
        cwd=module.path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as go:
        lines: list[str] = []
        assert go.stderr is not None
        reader = threading.Thread(target=lines.extend, args=(map(str.strip, go.stderr),), daemon=True)
        reader.start()
        try:
            while True:
                reader.join(REPORT_EVERY)
                if not reader.is_alive():
                    break
                # go names each package when it begins to compile it.
                compiled = sum(not line.startswith("go: ") for line in lines)
                now = f", now {lines[-1].removeprefix('go: ')}" if lines else ""
                progress(f"building {name}: {time.monotonic() - started:.0f} s, {compiled} packages compiled{now}")
            status = go.wait()
        except BaseException:
            go.terminate()
            raise
    if status:
        raise _Unavailable(f"`go build` ended with status {status}:\n    " + "\n    ".join(lines[-12:]))
    progress(f"built {name} in {time.monotonic() - started:.0f} s")


def _install(part: Path, target: Path) -> None:
    """Make the file executable and give it its name, only after its content is on the disk."""
    part.chmod(0o755)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(part, target)


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def main() -> None:
    """Everything from the pinned source, so that nobody who needs it later has to wait or to wonder."""
    names = [name for module in MODULES for name in module.packages]
    try:
        locate(names, progress=lambda line: print(line, flush=True), archive=None)
    except BinaryNotFound as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
