"""Finds the helm program on this machine. (In a cluster, the image contains it.)

The order: $HELM; the pinned version, if it is in the cache; a helm of the same major version in PATH; the pinned
version, downloaded or built.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

from infra.local_control_plane import processes
from infra.local_control_plane.binaries import BinaryNotFound, locate
from infra.local_control_plane.cache import Progress, partial
from infra.local_control_plane.modules import module_of
from shared.charts import HelmMissing


def helm(progress: Progress) -> Path:
    """Returns the program, after downloading or building it if necessary, which takes minutes. Raises HelmMissing."""
    if found := present():
        return found
    try:
        return locate(["helm"], progress=progress)["helm"]
    except BinaryNotFound as error:
        raise HelmMissing(str(error)) from error


def present() -> Path | None:
    """Returns the program if it is on this machine, else None. Raises HelmMissing if $HELM names no program."""
    if named := os.environ.get("HELM"):
        found = shutil.which(named)
        if found is None:
            raise HelmMissing(f"$HELM is {named}, which is not an executable file")
        return Path(found)
    try:
        return locate(["helm"], progress=lambda _line: None, get=False)["helm"]
    except BinaryNotFound:
        in_path = shutil.which("helm")
        return Path(in_path) if in_path and _has_pinned_major(in_path) else None


def _has_pinned_major(program: str) -> bool:
    """Returns whether a program has the pinned major version. Others render differently and have other options."""
    major = module_of("helm").version.partition(".")[0]
    try:
        done = subprocess.run(
            [program, "version", "--template", "{{.Version}}"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.startswith(f"{major}.")


class HelmProgram:
    """The program for functions of this machine; a child process gets and links a missing program at `path`."""

    def __init__(self, path: Path, progress: Progress) -> None:
        self.path = path
        self._progress = progress
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, name="helm", daemon=True)

    def setting(self, *, get: bool = True) -> dict[str, str]:
        """Returns the environment variable with the path at which the functions find the program, now or later.

        Without `get`, does not fetch a missing program. Raises HelmMissing if $HELM names no program.
        """
        found = present()
        if found is None and get:
            self.start()
            found = self.path
        return {"HELM": str(found)} if found else {}

    def start(self) -> None:
        """Starts a child process that gets the program."""
        self.path.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "infra.local.helm", str(self.path)],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
            preexec_fn=processes.die_with_parent(signal.SIGTERM),
        )
        self._reader.start()

    def stop(self) -> None:
        """Ends the fetch of the program. A later build continues where this one ended."""
        if self._process is not None:
            processes.end(self._process)
            self._reader.join(10)
            self._process = None

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self._progress(line.rstrip())


def main() -> None:
    """Runs `python -m infra.local.helm LINK`."""
    link = Path(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        program = helm(lambda line: print(line, flush=True))
    except HelmMissing as error:
        sys.exit(f"charts that read from the cluster cannot be rendered: {error}")
    link.parent.mkdir(parents=True, exist_ok=True)
    with partial(link) as part:
        part.symlink_to(program)
        part.replace(link)
    print(f"helm is ready: {program}", flush=True)


if __name__ == "__main__":
    main()
