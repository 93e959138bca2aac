"""Finds, downloads or builds the executables that no Python package contains, such as etcd and kube-apiserver.

The places, in this order: for etcd, kube-apiserver and kubectl the file $TEST_ASSET_ETCD, $TEST_ASSET_KUBE_APISERVER or
$TEST_ASSET_KUBECTL; the directory $KUBEBUILDER_ASSETS; the cache. Some missing executables come from the official
archive of a pinned version and digest, others from `go build` with the versions pinned in
infra/binaries/<module>/go.mod. Downloads and builds go to the cache. `python -m infra.local_control_plane.binaries`
gets all executables that tests need, except for nodes and benchmarks, or the named ones.
"""

import argparse
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.local_control_plane import go_build
from infra.local_control_plane.archives import UnusableArchive, download, install, unpack, unusable
from infra.local_control_plane.cache import Progress, cache_directory, locked, partial
from infra.local_control_plane.modules import MODULES, Module, module_of

EXECUTABLES = ("etcd", "kube-apiserver")
"""The executables of a control plane."""
VARIABLES = {
    "etcd": "TEST_ASSET_ETCD",
    "kube-apiserver": "TEST_ASSET_KUBE_APISERVER",
    "kubectl": "TEST_ASSET_KUBECTL",
}
"""Variables of envtest with the path of one executable; they win over $KUBEBUILDER_ASSETS."""
_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


class BinaryNotFound(Exception):
    """An executable is missing; the message lists the attempts and the remedy."""


class CacheUnusable(BinaryNotFound):
    """Executables cannot be put into the cache."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"the cache cannot be used: {error}; $CAPI_FUNCTIONS_CACHE names another folder")


class _Unavailable(Exception):
    """One way to get an executable failed; the next is tried."""


@dataclass(frozen=True)
class Archive:
    """A released tar.gz archive with executables.

    Attributes:
        directory: The name of its directory in the cache.
        version: The pinned version.
        url: The URL, with the placeholders {version} and {platform}.
        names: The executables in it.
        digests: `algorithm:hex` by platform, such as "linux-amd64".
    """

    directory: str
    version: str
    url: str
    names: tuple[str, ...]
    digests: Mapping[str, str]

    @property
    def cache(self) -> Path:
        """The directory that the executables are unpacked to."""
        return cache_directory() / "binaries" / self.directory / self.version


ENVTEST = Archive(
    directory="envtest",
    version="v1.36.2",
    url="https://github.com/kubernetes-sigs/controller-tools/releases/download/"
    "envtest-{version}/envtest-{version}-{platform}.tar.gz",
    names=EXECUTABLES,
    digests={
        "linux-amd64": "sha512:ea743186c8a799f5cf8faf16969f86189d003cb7d130e0ac4b58789f1e5748dc"
        "f30ebe91c837a10d5ac415383da3e10b9e64d65785c938c23e739781cfb76f08",
        "linux-arm64": "sha512:2d72ee985a8e262a3c57dc9f7f0fd891f6a8c7bf7ebaa2db6dc6d8eac8ae2818"
        "1afe51c1f368b67756cdb40b10de9b205609e1726e5f27f7c6d824dd9c6649ac",
    },
)
HELM = Archive(
    directory="helm",
    version="v4.2.4",
    url="https://get.helm.sh/helm-{version}-{platform}.tar.gz",
    names=("helm",),
    digests={
        "linux-amd64": "sha256:c306b46f719b0a4da32d0f78ee21bf90ce8d602f15b22ab753f0674d1670a7f3",
        "linux-arm64": "sha256:564de2191b881e9f71b5606b25345821ea1682f06ab90499d3ab22b530176da1",
    },
)
ARCHIVES: Sequence[Archive] = (ENVTEST, HELM)


def this_platform() -> str:
    """Returns the platform of this machine as archives name it, such as "linux-amd64"."""
    machine = platform.machine()
    return f"{platform.system().lower()}-{_GO_NAMES.get(machine, machine)}"


def locate(
    names: Sequence[str],
    *,
    progress: Progress,
    get: bool = True,
    archives: Sequence[Archive] | None = None,
    assets: bool = True,
) -> dict[str, Path]:
    """Returns the paths of executables by name, after downloading or building them if necessary, which takes minutes.

    Args:
        names: The executables, such as "etcd".
        progress: Called with each line of progress.
        get: Whether to download or build missing executables.
        archives: The archives to download from; with an empty list everything is built from source.
        assets: Whether to obey $KUBEBUILDER_ASSETS and `VARIABLES`. Without them and without archives, versions are
            the pinned ones.

    Raises:
        BinaryNotFound: Executables are missing; the message names all of them, and what helps.
        ValueError: A name belongs to no known executable.
    """
    archives = ARCHIVES if archives is None else archives
    found: dict[str, Path] = {}
    missing: list[str] = []
    for name in names:
        tried: list[str] = []
        for attempt in _attempts(name, progress, get, archives, assets):
            try:
                found[name] = attempt()
                break
            except _Unavailable as reason:
                tried.append(f"  - {reason}")
        else:
            missing.append("\n".join([f"{name} was not found:", *tried, explain(name)]))
    if missing:
        raise BinaryNotFound("\n\n".join(missing))
    return found


def in_assets(names: Sequence[str]) -> bool:
    """Returns whether $KUBEBUILDER_ASSETS and `VARIABLES` have all these executables."""
    folder = Path(os.environ.get("KUBEBUILDER_ASSETS", ""))
    return all(_executable(_named(name) or folder / name) for name in names)


def build_reproducibly(name: str, architecture: str, *, progress: Progress) -> Path:
    """Returns the path of a reproducible executable, after building it once.

    It is for Linux, and an architecture by Go's name. Raises BinaryNotFound.
    """
    module = module_of(name)
    target = module.cache / f"{go_build.TOOLCHAIN}-{architecture}" / name
    try:
        if not _executable(target):
            flags = f"{module.linker_flags} -buildid="
            _build(name, module, target, progress, flags=flags, **go_build.reproducible(architecture))
    except (OSError, go_build.BuildFailed) as error:
        raise BinaryNotFound(f"{name} for {architecture} cannot be built with Go: {error}") from error
    return target


def explain(name: str) -> str:
    """Returns what a user can do to get the executable `name`. Raises ValueError if the name is not known."""
    module = module_of(name)
    go = re.search(r"^go (\d+\.\d+)", (module.path / "go.mod").read_text(), re.M)
    ways = [
        f"set KUBEBUILDER_ASSETS to a directory with an executable file {name}",
        f"install Go >= {go[1] if go else '1.26'}: then {name} {module.version} is built once",
    ]
    if archive := _archive_of(name, ARCHIVES):
        ways.append(f"run once with network access: then {name} {archive.version} is downloaded")
    return "One of these helps:\n" + "\n".join(f"  * {way}" for way in ways)


def _archive_of(name: str, archives: Sequence[Archive]) -> Archive | None:
    return next((archive for archive in archives if name in archive.names), None)


def _attempts(
    name: str, progress: Progress, get: bool, archives: Sequence[Archive], assets: bool
) -> Iterator[Callable[[], Path]]:
    """Yields the ways to get an executable, in the order in which to try them."""
    module = module_of(name)
    archived = _archive_of(name, archives)
    if assets:
        if named := _named(name):
            yield lambda: _from_variable(name, named)
            return
        yield lambda: _from_assets(name)
    yield lambda: _from_cache(name, [module.cache, *([archived.cache] if archived else [])])
    if not get:
        return
    if archived:
        yield lambda: _from_archive(name, archived, progress)
    yield lambda: _from_source(name, module, progress)


def _named(name: str) -> Path | None:
    """Returns the path in the environment variable for one executable."""
    path = os.environ.get(VARIABLES.get(name, ""))
    return Path(path).absolute() if path else None


def _from_variable(name: str, path: Path) -> Path:
    if not _executable(path):
        raise _Unavailable(f"{VARIABLES[name]}: {path} is not an executable file")
    return path


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
    system = this_platform()
    if system not in archive.digests:
        raise _Unavailable(f"there is no archive for {system}")
    url = archive.url.format(version=archive.version, platform=system)
    try:
        with unusable():
            archive.cache.mkdir(parents=True, exist_ok=True)
            with locked(archive.cache / ".lock", f"downloads {url}", progress):
                if not _executable(target):
                    progress(f"downloading {url}")
                    with partial(archive.cache / "archive.tar.gz") as file:
                        download(url, file, archive.digests[system])
                        unpack(file, archive.names, archive.cache)
    except (UnusableArchive, OSError) as error:
        progress(f"{url} cannot be used: {error}")
        raise _Unavailable(f"{url}: {error}") from error
    if not _executable(target):
        raise _Unavailable(f"{url} does not contain {name}")
    return target


def _from_source(name: str, module: Module, progress: Progress) -> Path:
    target = module.cache / name
    if not shutil.which("go"):
        raise _Unavailable("cannot be built: there is no `go` in PATH")
    try:
        _build(name, module, target, progress, flags=module.linker_flags)
    except go_build.BuildFailed as error:
        raise _Unavailable(str(error)) from error
    except OSError as error:
        raise _Unavailable(f"cannot be built: {error}") from error
    return target


def _build(name: str, module: Module, target: Path, progress: Progress, **settings: str) -> None:
    """Builds an executable unless it exists, also by another process; `settings` are as for `go_build.build`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent / f".{name}.lock", f"builds {name}", progress):
        if not _executable(target):
            package = module.packages[name]
            go_build.into(target, name, package, progress, folder=module.path, version=module.version, **settings)


def _executable(path: Path) -> bool:
    """Returns whether the path is an executable file."""
    return path.is_file() and os.access(path, os.X_OK)


def main() -> None:
    """Gets the named executables, or all that tests need, with progress, so that later runs find them in the cache."""
    parser = argparse.ArgumentParser(prog="python -m infra.local_control_plane.binaries", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="copy the executables to this folder")
    given = parser.parse_args()
    names = given.names or [name for module in MODULES if not module.on_demand for name in module.packages]
    # The envtest archive has no controllers, and controllers must not be newer than their API server.
    archives = None if given.names else [archive for archive in ARCHIVES if archive is not ENVTEST]
    try:
        found = locate(names, progress=lambda line: print(line, flush=True), archives=archives)
        if given.into:
            given.into.mkdir(parents=True, exist_ok=True)
            for name, path in found.items():
                with partial(given.into / name) as part:
                    shutil.copyfile(path, part)
                    install(part, given.into / name)
    except (BinaryNotFound, ValueError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
