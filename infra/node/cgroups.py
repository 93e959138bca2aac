"""The cgroups of the node: one in each hierarchy of cgroup v1, below this process's cgroups."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
NAME = "capi-functions-node"
CONTROLLERS = frozenset({"cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"})
"""The controllers that the kubelet requires."""

# Moves the shell, and the program that replaces it, to cgroups. For the kernel, 0 is the writing process.
_JOIN = 'while [ "$1" != -- ]; do echo 0 >"$1/cgroup.procs"; shift; done; shift; exec "$@"'


@dataclass(frozen=True)
class Hierarchy:
    """A mounted hierarchy of cgroup v1, with the path of this process's cgroup in it.

    `options` are its mount options, such as "cpu,cpuacct" or "name=systemd".
    """

    options: str
    path: str

    @property
    def mount(self) -> Path:
        """Where the hierarchy is mounted."""
        return ROOT / self.options.removeprefix("name=")

    @property
    def cgroup(self) -> Path:
        """The cgroup of the node."""
        return self.mount / self.path.strip("/") / NAME


def hierarchies(text: str | None = None) -> list[Hierarchy]:
    """Returns the mounted hierarchies of this process; `text` is the content of /proc/self/cgroup."""
    lines = (Path("/proc/self/cgroup").read_text() if text is None else text).splitlines()
    found = [Hierarchy(options, path) for _, options, path in (line.split(":", 2) for line in lines) if options]
    return [hierarchy for hierarchy in found if hierarchy.mount.is_dir()]


def create() -> list[Path]:
    """Creates the cgroups of the node, after removing the cgroups of a killed keeper. Raises OSError."""
    remove()
    created = []
    for hierarchy in hierarchies():
        cgroup = hierarchy.cgroup
        cgroup.mkdir()
        created.append(cgroup)
        if "cpuset" in hierarchy.options.split(","):  # no process can be in a cpuset without processors and memory
            for name in ("cpuset.cpus", "cpuset.mems"):
                (cgroup / name).write_text((cgroup.parent / name).read_text())
    return created


def joining(cgroups: Sequence[Path], command: Sequence[str]) -> list[str]:
    """Returns the command line that runs `command` in these cgroups."""
    return ["sh", "-euc", _JOIN, "sh", *map(str, cgroups), "--", *command]


def remove(patience: float = 10.0) -> list[Path]:
    """Removes the cgroups of the node once no process is in them; returns those that are left after `patience` s."""
    deadline = time.monotonic() + patience
    while True:
        left = [hierarchy.cgroup for hierarchy in hierarchies() if not _removed(hierarchy.cgroup)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def _removed(cgroup: Path) -> bool:
    if not cgroup.is_dir():
        return True
    below = sorted((path for path in cgroup.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
    try:
        for path in [*below, cgroup]:
            path.rmdir()
    except OSError:
        return False
    return True
