"""The supervisor of one instance: `python -m infra.local_control_plane.supervisor DIR --etcd=E --kube-apiserver=A`.

The process outlives the command that started it, and ends with its owner if it has one. All its servers always end with
it. It has one thread and one loop: every wait is `Supervisor._wait`, which returns at once on a signal, at the end of
the owner, and at the end of a server. Functions import slow modules, because each start of an instance waits for the
imports of this module.
"""

import argparse
import fcntl
import functools
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.local_control_plane import controllers, credentials, files, ports, processes, servers, variables
from infra.local_control_plane.layout import ADMIN, LOCKED, Layout
from infra.local_control_plane.network import Network
from infra.local_control_plane.processes import Process
from infra.local_control_plane.state import Phase, State

_GRACE = variables.stop_timeout(8.0)  # seconds between SIGTERM and SIGKILL
_ETCD_PATIENCE = 20.0  # seconds that kube-apiserver waits for etcd before it exits
_POLL_INTERVAL = 0.2  # seconds between checks of the processes where the kernel has no pidfd


class _StopRequested(Exception):
    """A signal or the end of the owner requests the end of the instance."""


class _Failure(Exception):
    """The instance cannot start or continue; the message says why."""


@dataclass
class Supervisor:
    """Starts the servers of one instance, watches them, and ends them.

    Attributes:
        layout: The paths of the instance.
        executables: Paths of etcd, kube-apiserver and, optionally, the controllers, by name.
        timeout: Seconds from the start of etcd until the API server must be ready.
        owner: The process whose end ends the instance.
        host: The address of the API server.
        network: The network of pods that `host` is in, if there is one.
        nodes: The number of nodes of kwok.
        etcd_flags: More flags for etcd, see `servers.with_flags`.
        api_server_flags: More flags for the API server.
    """

    layout: Layout
    executables: Mapping[str, Path]
    timeout: float
    owner: Process | None = None
    host: str = "127.0.0.1"
    network: Network | None = None
    nodes: int = controllers.NODES
    etcd_flags: Sequence[str] = ()
    api_server_flags: Sequence[str] = ()

    def __post_init__(self) -> None:
        previous = State.read(self.layout.state)
        self._preferred_port = previous.port if previous else 0
        self._leftovers = previous.processes if previous else []
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        self._watched: dict[int, int] = {}
        self._port: socket.socket | None = None
        self._signalled = False
        self._poll = select.poll()
        self._all_polled = True
        self.state = State("starting", previous.url if previous else "", supervisor=Process.of(os.getpid()))

    def run(self, started: Callable[[], None]) -> None:
        """Starts the servers and returns after their end. Calls `started` once the state file is written."""
        self._handle_signals()
        self._save("starting")
        started()
        try:
            if self.owner:
                self._watch(self.owner.pid)
            self._kill_leftovers()
            self._port = ports.hold(self._preferred_port, self.host)
            self._launch(self._port.getsockname()[1])
            self._save("ready")
            while True:
                self._wait(None)
        except _StopRequested as reason:
            _log(str(reason))
            self._save("stopped")
        except Exception as error:
            if not isinstance(error, _Failure | OSError | ValueError):
                traceback.print_exc()
            _log(str(error))
            self._save("failed", str(error))
        finally:
            # etcd ends last: without etcd, the other servers would only log errors and wait.
            for name in reversed(self._servers.copy()):
                self._end(name)
            if self._port:
                self._port.close()
            self.state.servers = {}
            self._save(self.state.phase, self.state.error)

    def _kill_leftovers(self) -> None:
        """Kills servers of a former run whose supervisor was killed, because they hold the port and the data."""
        deadline = time.monotonic() + _GRACE
        for process in self._leftovers:
            process.signal(signal.SIGKILL)
            while process.alive():
                self._wait(0.01)
                if time.monotonic() > deadline:
                    raise _Failure(f"process {process.pid} of the former run does not end after SIGKILL")

    def _launch(self, port: int) -> None:
        chosen = [name for name in controllers.NAMES if name in self.executables]
        users = {name: user for name, user in controllers.USERS.items() if name in chosen}
        answers = self.layout.run / servers.ETCD_SOCKET
        answers.unlink(missing_ok=True)
        self._spawn("etcd", servers.with_flags(servers.etcd(self.executables["etcd"], self.layout), self.etcd_flags))
        self.state.url = f"https://{f'[{self.host}]' if ':' in self.host else self.host}:{port}"
        credentials.prepare(self.layout, users, self.network)
        deadline = time.monotonic() + self.timeout
        self._await(lambda: "" if answers.exists() else "it does not listen yet", "etcd", deadline, pause=0.01)
        apiserver = self.executables["kube-apiserver"]
        command = servers.apiserver(
            apiserver, self.layout, self.host, port, controllers=bool(chosen), network=self.network
        )
        command = servers.with_flags(command, self.api_server_flags)
        self._spawn("kube-apiserver", command)
        for user in (ADMIN, *users):
            credentials.write_kubeconfig(self.layout, self.state.url, user)
        self._await_ready(command, chosen, deadline)

    def _await_ready(self, apiserver: list[str], chosen: Sequence[str], deadline: float) -> None:
        from infra.local_control_plane import probe

        connection = probe.AdminConnection(self.layout, self.host, self.state.port)
        while True:
            patience = time.monotonic() + _ETCD_PATIENCE
            try:
                self._await(lambda: connection.problem(*probe.READY), "kube-apiserver", deadline)
                break
            except _Failure:
                # On a busy machine etcd can take longer.
                gave_up = self._servers["kube-apiserver"].poll() is not None and time.monotonic() >= patience
                if not gave_up or self._servers["etcd"].poll() is not None:
                    raise
                self._end("kube-apiserver")
                self._spawn("kube-apiserver", apiserver)
        # Controllers start after the API server is ready, because they exit if it does not answer.
        for name in chosen:
            self._spawn(name, controllers.command(name, self.executables[name], self.layout, self.network))
        for node in controllers.nodes(self.nodes) if "kwok" in chosen else ():
            self._await(functools.partial(connection.create, "/api/v1/nodes", node), "kube-apiserver", deadline)
        if chosen:
            self._await(lambda: connection.problem(controllers.READY), "kube-controller-manager", deadline)
        connection.close()

    def _await(self, problem: Callable[[], str], name: str, deadline: float, pause: float = 0.03) -> None:
        while answer := problem():
            self._wait(pause)
            if time.monotonic() > deadline:
                raise self._failure(f"was not ready within {self.timeout:g} s ({answer})", name)

    def _spawn(self, name: str, arguments: list[str]) -> None:
        # Cleans the environment, because etcd also reads every flag from it, and variables for another etcd must not
        # reach it.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ETCD_")}
        child = processes.spawn(
            arguments, directory=self.layout.run, log=self.layout.log(name), environment=environment
        )
        _log(f"{name} runs as {child.pid}")
        self._servers[name] = child
        self._watch(child.pid)
        if process := Process.of(child.pid):
            self.state.servers[name] = process
        self._save("starting")

    def _wait(self, seconds: float | None) -> None:
        """Waits for `seconds` (None: forever). Raises _StopRequested or _Failure as soon as the instance must end."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            if self._signalled:
                raise _StopRequested("stopped by a signal")
            if self.owner and not self.owner.alive():
                raise _StopRequested(f"the owner, process {self.owner.pid}, has ended")
            for name, child in self._servers.items():
                if (code := child.poll()) is not None:
                    raise self._failure(f"exited with {_exit_status(code)}", name)
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            pause = left if self._all_polled else min(_POLL_INTERVAL, _POLL_INTERVAL if left is None else left)
            self._poll.poll(None if pause is None else pause * 1000)

    def _failure(self, what: str, name: str) -> _Failure:
        log = self.layout.log(name)
        return _Failure(f"{name} {what}; the end of {log}:\n{files.tail(log) or '(empty)'}")

    def _end(self, name: str) -> None:
        child = self._servers.pop(name, None)
        if child is None:
            return
        # Without etcd the API server cannot finish requests, and would retry them for a long time.
        etcd = self._servers.get("etcd")
        hopeless = name == "kube-apiserver" and (etcd is None or etcd.poll() is not None)
        for number in (signal.SIGKILL,) if hopeless else (signal.SIGTERM, signal.SIGKILL):
            # Signals the group even if the process has ended, because children of it may be left.
            try:
                os.killpg(child.pid, number)
            except ProcessLookupError:
                break
            try:
                child.wait(_GRACE)
            except subprocess.TimeoutExpired:
                _log(f"{name} ignores {number.name}")
        if (descriptor := self._watched.pop(child.pid, None)) is not None:
            self._poll.unregister(descriptor)
            os.close(descriptor)
        _log(f"{name} has ended")

    def _watch(self, pid: int) -> None:
        descriptor = processes.watch(pid)
        if descriptor is None:
            self._all_polled = False
        else:
            self._poll.register(descriptor, select.POLLIN)
            self._watched[pid] = descriptor

    def _handle_signals(self) -> None:
        def note(*_: object) -> None:
            self._signalled = True

        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)  # a handler alone does not wake up poll()
        self._poll.register(reader, select.POLLIN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, note)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _save(self, phase: Phase, error: str = "") -> None:
        self.state.phase, self.state.error = phase, error
        self.state.write(self.layout.state)


def _exit_status(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"status {code}"


def _log(line: str) -> None:
    print(time.strftime("%Y-%m-%dT%H:%M:%S"), line, flush=True)


def _detach() -> Callable[[], None]:
    """Continues in a child process. The parent exits once the returned function is called.

    The parent exits with status 1 if the child ends before that.
    """
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os._exit(0 if os.read(reader, 1) else 1)
    os.close(reader)

    def release() -> None:
        os.write(writer, b"1")
        os.close(writer)

    return release


def main(arguments: Sequence[str] | None = None) -> int:
    """Supervises the instance in a directory. Returns `LOCKED` if the instance has a supervisor already."""
    parser = argparse.ArgumentParser(
        prog="infra.local_control_plane.supervisor", description="Supervises one local control plane."
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--etcd", type=Path, required=True)
    parser.add_argument("--kube-apiserver", type=Path, required=True)
    for name in controllers.NAMES:
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds until the API server must be ready")
    parser.add_argument("--host", default=servers.HOSTS["ipv4"], help="the address of the API server")
    parser.add_argument("--owner", metavar="PID:STARTED", help="the process whose end ends the instance")
    parser.add_argument("--services", metavar="CIDR", help="the range of cluster IPs in a network of pods")
    parser.add_argument("--nodes", type=int, default=controllers.NODES, help="the number of nodes of kwok")
    for server in ("etcd", "api-server"):
        parser.add_argument(f"--{server}-flag", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--node", action="store_true", help="a node runs pods")
    options = parser.parse_args(arguments)
    layout = Layout(options.directory.absolute())
    os.umask(0o077)  # the servers inherit it for their files and sockets
    layout.create()
    lock = os.open(layout.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"{layout.root} has a supervisor already", file=sys.stderr)
        return LOCKED
    owner = Process(*map(int, options.owner.split(":"))) if options.owner else None
    release = _detach()
    given = {name: getattr(options, name.replace("-", "_")) for name in ("etcd", "kube-apiserver", *controllers.NAMES)}
    executables = {name: path for name, path in given.items() if path}
    network = Network(options.host, options.services, options.node) if options.services else None
    Supervisor(
        layout,
        executables,
        options.timeout,
        owner,
        options.host,
        network,
        options.nodes,
        options.etcd_flag,
        options.api_server_flag,
    ).run(release)
    return 0


if __name__ == "__main__":
    sys.exit(main())
