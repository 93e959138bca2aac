"""Starts a node with its control plane for the time of a `with` block.

with Node(folder) as node:
    subprocess.run(["kubectl", "--kubeconfig", node.kubeconfig, "get", "nodes"], check=True)
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from infra import local_control_plane
from infra.local_control_plane import files
from infra.local_control_plane.cache import Progress
from infra.local_control_plane.processes import Process
from infra.node import addresses, cgroups, daemons, debian, images, keeper, programs
from shared.api.conditions import is_true
from shared.api.resources import NODE
from shared.kube import ApiError, Client, Key, connect, dig

_PROJECT = Path(__file__).parents[2]
_PATH = "/node/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The keeper gets no other variables, because a test run kills leftover processes by a mark in the environment, but the
# keeper, which outlives it for a moment, must clean up.
_INHERITED = ("PATH", "HOME", "XDG_CACHE_HOME", "CAPI_FUNCTIONS_CACHE")
_NAMESPACES = ("--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--root", "--wd")


class NodeError(Exception):
    """The node could not be started, or a command in it failed; the message ends with the log."""


class Node:
    """One node and its control plane: kube-apiserver, etcd, controllers and scheduler as processes of this machine.

    Everything ends with the block, and at the latest with this process. `missing()` returns why a machine cannot run
    it.

    Args:
        folder: An empty folder for data, logs and the control plane, on a file system that containers can lie on.
        apiserver_flags: More flags of the API server, such as for an audit log.
        progress: Called with each line of progress.
        timeout: Seconds until the node must be Ready, after a node of another run has ended.
    """

    def __init__(
        self,
        folder: Path,
        *,
        apiserver_flags: Sequence[str] = (),
        progress: Progress = print,
        timeout: float = 120.0,
    ) -> None:
        self.folder = folder.absolute()
        self._flags = apiserver_flags
        self._progress = progress
        self._timeout = timeout
        self._cleanup = ExitStack()
        self._first = 0
        self._cgroups: list[Path] = []
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def plane(self) -> Path:
        """The folder of the control plane."""
        return self.folder / "plane"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator; it works on this machine and in pods."""
        return local_control_plane.kubeconfig(self.plane)

    def __enter__(self) -> Node:
        """Starts the node; returns once it is Ready.

        Raises NodeError, ControlPlaneError, BinaryNotFound, PackagesNotFound.
        """
        try:
            self._start()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the node and its control plane."""
        self._cleanup.close()

    # -- start ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        progress = self._progress
        for name in ("logs", "cni"):
            (self.folder / name).mkdir(parents=True)
        for name, content in daemons.configurations().items():
            (self.folder / name).write_text(content)
        packages = debian.unpacked(progress)
        servers = programs.of_control_plane(progress)
        pause = images.of_program(daemons.PAUSE, "pause", progress)
        self._cleanup.callback(self._await_daemons)  # after the end of the keeper
        self._start_keeper(packages, programs.of_node(progress))
        start = functools.partial(
            local_control_plane.start,
            self.plane,
            owner=os.getpid(),
            progress=progress,
            binaries={**servers, "kube-apiserver": self._with_flags(servers["kube-apiserver"])},
            controllers=True,
            network=addresses.MANAGEMENT,
        )
        start(wait=False)
        self._cleanup.callback(local_control_plane.stop, self.plane)
        self._spawn("containerd")
        self._until(self._containerd_answers, "containerd answers", "containerd")
        self.import_image(pause)
        start()
        (self.folder / "ca.crt").write_bytes(local_control_plane.load_ca(self.plane).cert_pem)
        for name, (user, group) in daemons.KUBECONFIGS.items():
            issued = local_control_plane.add_user(self.plane, user, [group] if group else [])
            files.write(self.folder / f"{name}.kubeconfig", issued.read_bytes())
            self._spawn(name)
        client = connect.from_kubeconfig(str(self.kubeconfig))
        self._cleanup.callback(client.close)
        self._until(functools.partial(_ready, client), "the node is Ready", "kubelet")

    def _start_keeper(self, packages: Path | None, daemons_found: dict[str, Path]) -> None:
        owner = Process.of(os.getpid())
        assert owner is not None
        command = [sys.executable, "-m", "infra.node.keeper", str(self.folder)]
        command += [f"--owner={owner.pid}:{owner.started}", "--", str(self.folder), f"--hostname={daemons.NAME}"]
        command += [f"--packages={packages}"] if packages else []
        command += [f"--program={name}={path}" for name, path in daemons_found.items()]
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_PROJECT), os.environ.get("PYTHONPATH")]))
        log = self.folder / "logs" / "keeper.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._cleanup.callback(_end, process)
        started, waiting = self.folder / keeper.STARTED, ""
        while not started.exists():
            if process.poll() is not None:
                failed = self.folder / keeper.FAILED
                reason = failed.read_text() if failed.exists() else files.tail(log)
                raise NodeError(f"the node did not start: {reason}")
            if (line := files.tail(log, 1)) != waiting:  # another run has the node of this machine
                waiting = line
                self._progress(line)
            time.sleep(0.05)
        self._first = int(started.read_text())
        self._cgroups = [hierarchy.cgroup for hierarchy in cgroups.hierarchies()]

    def _with_flags(self, apiserver: Path) -> Path:
        if not self._flags:
            return apiserver
        command = self.folder / "kube-apiserver"
        flags = " ".join(f"'{flag}'" for flag in self._flags)
        command.write_text(f'#!/bin/sh\nexec "{apiserver}" "$@" {flags}\n')
        command.chmod(0o755)
        return command

    def _spawn(self, name: str) -> None:
        with (self.folder / "logs" / f"{name}.log").open("wb") as log:
            self._daemons[name] = subprocess.Popen(
                self.command(daemons.COMMANDS[name]), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _await_daemons(self) -> None:
        for process in self._daemons.values():
            process.wait()

    def _containerd_answers(self) -> bool:
        return self.run(["ctr", "version"], check=False).returncode == 0

    def _until(self, reached: Callable[[], bool], what: str, daemon: str) -> None:
        deadline = time.monotonic() + self._timeout
        log = self.folder / "logs" / f"{daemon}.log"
        while not reached():
            for name, process in self._daemons.items():
                if (code := process.poll()) is not None:
                    raise NodeError(f"{name} ended with {code}: {files.tail(self.folder / 'logs' / f'{name}.log')}")
            if time.monotonic() > deadline:
                raise NodeError(f"not after {self._timeout:g} s: {what}; the end of {log}:\n{files.tail(log)}")
            time.sleep(0.1)

    # -- use -----------------------------------------------------------------------------------------------------

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Returns the command line that runs a program in the node; the program ends with the node."""
        inside = ["nsenter", f"--target={self._first}", *_NAMESPACES, "--", "env", "-i", f"PATH={_PATH}", "HOME=/root"]
        return cgroups.joining(self._cgroups, [*inside, *arguments])

    def run(self, arguments: Sequence[str], *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a program in the node. Raises NodeError with its output if it fails, unless `check` is False."""
        done = subprocess.run(
            self.command(arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if check and done.returncode:
            raise NodeError(f"`{' '.join(arguments)}` failed in the node: {done.stderr.strip() or done.stdout.strip()}")
        return done

    def import_image(self, archive: Path) -> None:
        """Imports the images of an OCI archive into containerd, under the names in it. Raises NodeError."""
        with archive.open("rb") as content:
            done = subprocess.run(
                self.command(["ctr", "--namespace=k8s.io", "images", "import", "-"]),
                stdin=content,
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise NodeError(f"{archive} cannot be imported: {done.stderr.strip()}")


def _ready(client: Client) -> bool:
    try:
        node = client.find(NODE, Key("", daemons.NAME))
    except ApiError:
        return False
    return is_true(dig(node, "status.conditions", []), "Ready")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the keeper, and with it the node. It needs some seconds at most to remove the cgroups."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
