"""Runs `go build`: of the modules that infra/binaries pins, of another module, or of a folder with sources."""

import json
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from infra.local_control_plane.archives import install
from infra.local_control_plane.cache import REPORT_INTERVAL, Progress, cache_directory, locked, partial

PLAIN = "-s -w"
"""The value of `-ldflags` that leaves out debugging symbols."""
TOOLCHAIN = "go1.26.8"
"""The version of Go for builds that must not depend on the machine. `go` downloads it, and checks its checksum."""
_OUTPUT = {
    "GOTOOLCHAIN": TOOLCHAIN,
    "GOENV": "off",
    "GOOS": "linux",
    "CGO_ENABLED": "0",
    "GOFLAGS": "-buildvcs=false",
    **dict.fromkeys(("GOROOT", "GOEXPERIMENT", "GOFIPS140", "GOAMD64", "GOARM64", "GODEBUG"), ""),
}
"""Settings of `go` that change the bytes of an executable; empty for Go's default."""
_INPUT = ("GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE", "GOAUTH", "GOMODCACHE", "GOCACHE")
"""Settings of `go` for the source of its input; go.sum pins the content by checksum."""
_OWN_GO_MOD = "-mod=readonly"
"""The flag for a downloaded module, which may have a list of vendored packages, but lacks the packages."""
_MODULE = re.compile(r"([A-Za-z0-9][\w.~-]*(?:/[\w.~-]+)+)@(v[0-9]+\.[0-9]+\.[0-9][\w.+-]*)", re.ASCII)

_LOCAL_REPLACEMENT = re.compile(r"^(?:replace )?[ \t]*(\S+) => \./\S+$", re.M)
"""A module in a subfolder, in a go.mod."""
_LANGUAGE = re.compile(r"^go \S+$", re.M)


class BuildFailed(Exception):
    """An executable cannot be built; the message contains the end of the output of `go`."""


def build(
    name: str,
    package: str,
    output: Path,
    progress: Progress,
    *,
    folder: Path,
    version: str = "",
    flags: str = PLAIN,
    **settings: str,
) -> None:
    """Builds an executable.

    After an interruption the next build continues: go caches every compiled package.

    Args:
        name: The name of the executable, for messages.
        package: The import path, or the path in `folder` that begins with a dot.
        output: The file to write.
        progress: Called with each line of progress.
        folder: The folder of the go.mod that counts.
        version: The version of the executable, for messages.
        flags: The value of `-ldflags`.
        settings: Environment variables of `go`.

    Raises:
        BuildFailed: `go` ends with an error.
        OSError: `go` cannot be started.
    """
    command = ["go", "build", "-v", "-trimpath", f"-ldflags={flags}", "-o", str(output), package]
    # Callers set these for the servers that they start; a build shall use all cores.
    inherited = {name: value for name, value in os.environ.items() if name not in ("GOMAXPROCS", "GOGC")}
    started = time.monotonic()
    progress(f"building {' '.join(filter(None, (name, version)))} (once; this takes minutes)")
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**inherited, "GOWORK": "off", **settings},
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
                reader.join(REPORT_INTERVAL)
                if not reader.is_alive():
                    break
                # go prints each package when it begins to compile it.
                compiled = sum(not line.startswith("go: ") for line in lines)
                now = f", now {lines[-1].removeprefix('go: ')}" if lines else ""
                progress(f"building {name}: {time.monotonic() - started:.0f} s, {compiled} packages compiled{now}")
            status = go.wait()
        except BaseException:
            go.terminate()
            raise
    if status:
        raise BuildFailed(f"`go build` ended with status {status}:\n    " + "\n    ".join(lines[-12:]))
    progress(f"built {name} in {time.monotonic() - started:.0f} s")


def reproducible(architecture: str) -> dict[str, str]:
    """Returns settings of `build` for Linux, and an architecture by Go's name.

    With `-buildid=` in the flags the bytes of an executable then depend on its sources and `TOOLCHAIN`, and on nothing
    of the machine. Raises BuildFailed or OSError.
    """
    command = ["go", "env", "-json", *_INPUT]
    # Without GOTOOLCHAIN, because another version may be local.
    done = subprocess.run(command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildFailed(f"`go env` failed: {done.stderr.strip()}")
    return {key: value for key, value in json.loads(done.stdout).items() if value} | _OUTPUT | {"GOARCH": architecture}


def version_in(text: str) -> str:
    """Returns the version in `PACKAGE@VERSION`, such as "v2.13.0"; "" for another text."""
    found = _MODULE.fullmatch(text)
    return found[2] if found else ""


def of_module(name: str, wanted: str, progress: Progress) -> Path:
    """Returns the executable of `PACKAGE@VERSION`, built once with the dependencies that its module pins itself.

    Args:
        name: The name of the executable.
        wanted: The import path of a main package, and the version of its module.
        progress: Called with each line of progress.

    Raises:
        BuildFailed: The module cannot be downloaded or built, or the text has another form.
        OSError: The cache cannot be used.
    """
    found = _MODULE.fullmatch(wanted)
    if found is None:
        raise BuildFailed(f"{wanted!r} is not PACKAGE@VERSION, such as example.com/provider@v1.2.3")
    target = cache_directory() / "binaries" / "modules" / wanted / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent / ".lock", f"builds {wanted}", progress):
        if not target.is_file():
            folder, package = source_of(found[1], found[2], progress)
            with TemporaryDirectory() as dependent:
                requirements = (folder / "go.mod").read_text()
                if _LOCAL_REPLACEMENT.search(requirements):
                    module = found[1].removesuffix(package.removeprefix("."))
                    (Path(dependent) / "go.mod").write_text(_dependent(module, found[2], requirements))
                    into(target, name, found[1], progress, folder=Path(dependent), version=found[2], GOFLAGS="-mod=mod")
                else:
                    into(target, name, package, progress, folder=folder, version=found[2], GOFLAGS=_OWN_GO_MOD)
    return target


def _dependent(module: str, version: str, requirements: str) -> str:
    """Returns the go.mod of a module that depends on another, whose modules in subfolders have the same version.

    A module has its subfolders' modules as folders only in its repository, not as it is downloaded. `requirements` is
    its go.mod.
    """
    language = _LANGUAGE.findall(requirements)
    replaced = [f"replace {one} => {one} {version}" for one in _LOCAL_REPLACEMENT.findall(requirements)]
    return "\n".join(["module dependent", *language, f"require {module} {version}", *replaced, ""])


def into(
    target: Path, name: str, package: str, progress: Progress, *, folder: Path, version: str = "", **settings: str
) -> None:
    """Builds the executable `target`, which is complete once it exists. Raises BuildFailed or OSError."""
    _require_go()
    with partial(target) as part:
        build(name, package, part, progress, folder=folder, version=version, **settings)
        install(part, target)


def _require_go() -> None:
    if not shutil.which("go"):
        raise BuildFailed("there is no `go` in PATH; install Go, or give the path of an executable")


def source_of(package: str, version: str, progress: Progress) -> tuple[Path, str]:
    """Returns the read-only source folder of the module that has a package, and the package's path in it.

    The module is the longest prefix of the import path that can be downloaded, as for `go install`. Raises BuildFailed.
    """
    _require_go()
    progress(f"downloading the source of {package}@{version}")
    module, problem = package, ""
    while "/" in module:
        command = ["go", "mod", "download", "-json", f"{module}@{version}"]
        environment = {**os.environ, "GOWORK": "off"}
        done = subprocess.run(
            command, cwd="/", env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        answer = json.loads(done.stdout or "{}")
        if "Dir" in answer:
            return Path(answer["Dir"]), f".{package.removeprefix(module)}"
        problem = problem or answer.get("Error") or done.stderr.strip()
        module = module.rpartition("/")[0]
    raise BuildFailed(f"{package}@{version} cannot be downloaded: {problem}")
