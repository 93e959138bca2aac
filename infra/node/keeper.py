"""The keeper of the node: `python -m infra.node.keeper FOLDER`, outside of the node's namespaces.

It creates the cgroups, the first process and the network link, and waits for the end of its owner or for a signal. Then
it kills the first process (the kernel then ends everything in the node), and removes the cgroups. If the keeper itself
is killed, the first process is killed by the kernel; the next keeper removes the empty cgroups.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from infra.local_control_plane import files
from infra.local_control_plane.cache import locked
from infra.local_control_plane.processes import Process, spawn
from infra.node import addresses, cgroups

STARTED = "started"
"""The file in the node's folder with the pid of the first process, once the node has its root and network."""
FAILED = "failed"
"""The file with the reason why there is no node."""
LOCK = Path("/run/capi-functions-node.lock")
"""The file that the keeper of the machine's node locks (flock)."""
_TIMEOUT = 60.0  # seconds until the node has its root
_UNSHARE = ("unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child=SIGKILL")


class _Stopped(Exception):
    """A signal, the end of the owner, or the end of the node ends the keeper."""


class Keeper:
    """Keeps the node whose folder is `folder` until the process `owner` ends."""

    def __init__(self, folder: Path, owner: Process) -> None:
        self._folder, self._owner = folder, owner
        self._signalled = False
        self._node: subprocess.Popen[bytes] | None = None

    def run(self, init: Sequence[str]) -> None:
        """Runs the node until it has to end."""
        try:
            with locked(LOCK, "has the node of this machine", self._log, self._wait):
                try:
                    self._run(init)
                finally:
                    self._end()
        except (_Stopped, OSError, subprocess.CalledProcessError) as reason:
            output = getattr(reason, "stderr", "") or files.tail(self._folder / "logs/init.log")
            files.write(self._folder / FAILED, f"{reason}: {output.strip()}")

    def stop(self, *_: object) -> None:
        """Ends the keeper soon; a signal handler."""
        self._signalled = True

    def _run(self, init: Sequence[str]) -> None:
        groups = cgroups.create()
        command = cgroups.joining(groups, [*_UNSHARE, "--propagation=private", *init])
        log = self._folder / "logs" / "init.log"
        self._node = spawn(command, directory=Path("/"), log=log, environment=os.environ)
        self._await((self._folder / "rooted").exists)
        first = _child(self._node.pid)
        _link(first)
        files.write(self._folder / STARTED, str(first))
        while True:
            self._wait(0.1)

    def _end(self) -> None:
        if self._node is not None:
            self._node.kill()
            self._node.wait()
        for left in cgroups.remove():
            self._log(f"{left} cannot be removed")

    def _await(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while not reached():
            self._wait(0.02)
            if time.monotonic() > deadline:
                raise _Stopped(f"the node has no root after {_TIMEOUT:g} s")

    def _wait(self, seconds: float) -> None:
        """Waits. Raises _Stopped once the keeper must end."""
        time.sleep(seconds)
        if self._signalled:
            raise _Stopped("stopped by a signal")
        if not self._owner.alive():
            raise _Stopped("the owner has ended")
        if self._node is not None and (code := self._node.poll()) is not None:
            raise _Stopped(f"the first process ended with {code}")

    def _log(self, line: str) -> None:
        print(time.strftime("%H:%M:%S"), line, flush=True)


def _child(pid: int) -> int:
    """Returns the pid of a process's only child."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _link(first: int) -> None:
    """Connects this machine with the network namespace of the process `first`. The link ends with that namespace."""
    subprocess.run(["ip", "link", "delete", addresses.LINK], capture_output=True, check=False)  # a dying one
    inside = ["nsenter", f"--net=/proc/{first}/ns/net"]
    machine, node = (f"{address}/{addresses.PREFIX}" for address in (addresses.MACHINE, addresses.NODE))
    link = addresses.LINK
    for command in (
        ["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(first)],
        [*inside, "ip", "address", "add", node, "dev", "eth0"],
        [*inside, "ip", "link", "set", "eth0", "up"],
        [*inside, "ip", "link", "set", "lo", "up"],
        # kube-proxy rewrites the address of a Service after the route was chosen, so any route does.
        [*inside, "ip", "route", "add", addresses.SERVICES, "via", addresses.MACHINE],
        ["ip", "address", "add", machine, "dev", link],
        ["ip", "link", "set", link, "up"],
        *(["ip", "route", "add", there, "via", addresses.NODE] for there in (addresses.PODS, addresses.SERVICES)),
    ):
        subprocess.run(command, capture_output=True, text=True, check=True)


def main() -> None:
    """Runs the keeper. It passes the arguments after the options to the node's first process."""
    parser = argparse.ArgumentParser(prog="python -m infra.node.keeper")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--owner", required=True, metavar="PID:STARTED")
    parser.add_argument("init", nargs="+")
    options = parser.parse_args()
    owner = Process(*map(int, options.owner.split(":")))
    keeper = Keeper(options.folder, owner)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, keeper.stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    keeper.run([sys.executable, "-m", "infra.node.init", *options.init])


if __name__ == "__main__":
    main()
