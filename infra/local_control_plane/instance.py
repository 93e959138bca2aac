"""Starts, inspects, stops and removes instances. Every function may be called from any process at any time."""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from infra.local_control_plane import controllers as controller_programs
from infra.local_control_plane import credentials, files, ports, servers, variables
from infra.local_control_plane.layout import ADMIN, LOCKED, Layout
from infra.local_control_plane.network import Network
from infra.local_control_plane.processes import Process
from infra.local_control_plane.state import State

if TYPE_CHECKING:
    from shared.certificates import CertificateAuthority

_MARGIN = 20.0  # seconds beside the servers' start: finding executables, the end of a former run
_PROJECT = Path(__file__).parents[2]


class ControlPlaneError(Exception):
    """An instance could not be started, stopped or removed; the message names its directory."""


@dataclass(frozen=True)
class Status:
    """The status of an instance.

    Attributes:
        phase: "absent" (the directory has no instance), "starting", "ready" (the API server answers), "failed" (the
            instance cannot start or continue), or "stopped".
        url: Where the API server listens, or listened last; "" if it never did.
        host: The host in `url`.
        port: The port in `url`.
        error: Why the phase is "failed".
        pid: The pid of the supervisor; None if the supervisor does not run.
    """

    phase: Literal["absent", "starting", "ready", "failed", "stopped"]
    url: str = ""
    host: str = ""
    port: int = 0
    error: str = ""
    pid: int | None = None


def start(
    directory: Path,
    *,
    ca: "CertificateAuthority | None" = None,
    owner: int | None = None,
    progress: Callable[[str], None] | None = None,
    timeout: float | None = None,
    wait: bool = True,
    binaries: Mapping[str, Path] | None = None,
    controllers: bool = False,
    nodes: int = controller_programs.NODES,
    kubernetes_version: str = "",
    ip_family: str = "",
    network: Network | None = None,
    etcd_flags: Sequence[str] = (),
    api_server_flags: Sequence[str] = (),
) -> Status:
    """Starts the instance in `directory`, which is created if absent. Does nothing if the instance runs already.

    Args:
        directory: The instance's directory.
        ca: The CA of a new instance (default: a generated one).
        owner: Pid of the process whose end ends the instance (None: it runs until `stop`).
        progress: Called with each line of progress.
        timeout: Seconds from the start of the servers until they must be ready (default: as `variables` says, else 60).
        wait: Whether to wait until the instance is ready. If not, the returned phase is mostly "starting".
        binaries: Executables by name, such as "etcd" (default: `binaries.locate`).
        controllers: Whether to run the controllers of controllers.py too. Not remembered for the next start.
        nodes: With controllers, the number of nodes of kwok. Nodes of a former start stay.
        kubernetes_version: A selector of `selectors`, such as "1.36" (default: the version of `binaries.locate`). Not
            remembered either.
        ip_family: "ipv4" or "ipv6": the family of the API server's address and of Services (default: the instance's
            family, for a new one "ipv4").
        network: The network of pods that the API server shall be in. Not remembered either.
        etcd_flags: More flags for etcd, such as "quota-backend-bytes=8589934592"; they replace flags of the same name.
            Not remembered either.
        api_server_flags: More flags for the API server. Not remembered either.

    Raises:
        ControlPlaneError: The instance did not become ready (the message ends with its log), has another CA or family,
            or the machine has no address of the family.
        BinaryNotFound: An executable is missing, see `binaries.locate` and `store.use`.
        ValueError: `kubernetes_version` is no selector, or a variable of `variables` is no duration.
    """
    timeout = variables.start_timeout(60.0) if timeout is None else timeout
    layout = _layout(directory)
    say = progress or _ignore_progress
    host = network.address if network else address(status(directory).host, ip_family)
    executables: Mapping[str, Path] = {}
    if status(directory).phase not in ("starting", "ready"):
        if not ports.has_address(host):
            raise ControlPlaneError(f"{layout.root} is not started: this machine has no address {host}")
        wanted = ["etcd", "kube-apiserver", *(controller_programs.chosen(network) if controllers else ())]
        found = _find(wanted, kubernetes_version, say) if binaries is None else binaries
        executables = {name: found[name] for name in wanted}
    if ca is not None:  # once nothing is missing, because a CA alone makes no instance, and could not be removed
        _place_ca(layout, ca)
    if executables:
        say(f"starting the control plane in {layout.root}")
        flags = [
            *(f"--etcd-flag={flag}" for flag in etcd_flags),
            *(f"--api-server-flag={flag}" for flag in api_server_flags),
        ]
        _spawn_supervisor(layout, executables, host, owner, timeout, network, nodes, flags)
    if not wait:
        return status(directory)
    deadline = time.monotonic() + timeout + _MARGIN
    while (now := status(directory)).phase == "starting" and time.monotonic() < deadline:
        time.sleep(0.02)
    if now.phase != "ready":
        reason = now.error or f"it is {now.phase}; {_end_of(layout.log('supervisor'))}"
        raise ControlPlaneError(f"the control plane in {layout.root} did not become ready: {reason}")
    return now


def address(former: str, ip_family: str) -> str:
    """Returns the address for the API server of an instance that was at `former` ("" if it is new).

    Raises ControlPlaneError for another family than `former` has.
    """
    host = servers.HOSTS[ip_family] if ip_family else former or servers.HOSTS["ipv4"]
    if former and host != former:
        raise ControlPlaneError(
            f"the control plane is at {former}, and its Services have addresses of that family; to use {host}, delete "
            "the control plane first"
        )
    return host


def status(directory: Path) -> Status:
    """Returns the status of the instance, without blocking. An instance whose supervisor has ended is stopped."""
    state = State.read(_layout(directory).state)
    if state is None:
        return Status("absent")
    running = state.supervisor is not None and state.supervisor.alive()
    phase = state.phase if running or state.phase == "failed" else "stopped"
    host = urlsplit(state.url).hostname or ""
    pid = state.supervisor.pid if state.supervisor and running else None
    return Status(phase, state.url, host, state.port, state.error, pid)


def stop(directory: Path, timeout: float | None = None) -> None:
    """Ends the instance and waits for the end of all its processes. Does nothing if none runs.

    After `timeout` seconds (default: 20, or enough for the time-out of `variables`) the processes are killed. Raises
    ControlPlaneError if they do not end even then.
    """
    timeout = max(20.0, _MARGIN + variables.stop_timeout(0.0)) if timeout is None else timeout
    layout = _layout(directory)
    for number, patience in ((signal.SIGTERM, timeout), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + patience
        signalled: set[Process] = set()
        while alive := _alive(layout):
            # The supervisor ends its servers in order. If it is dead or too slow, they are signalled directly.
            targets = alive if number == signal.SIGKILL else alive[:1]
            for process in set(targets) - signalled:
                process.signal(number)
                signalled.add(process)
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        else:
            return
    raise ControlPlaneError(f"processes of {layout.root} do not end: {[process.pid for process in alive]}")


def remove(directory: Path) -> None:
    """Stops the instance and deletes its directory. Does nothing if there is no such directory.

    Raises ControlPlaneError, and deletes nothing, if the directory does not belong to an instance.
    """
    layout = _layout(directory)
    if not layout.root.exists():
        return
    if not (layout.state.is_file() and layout.lock.is_file()):
        raise ControlPlaneError(f"{layout.root} is not the directory of a control plane")
    stop(directory)
    # Another process may be removing it at the same time.
    with contextlib.suppress(FileNotFoundError), layout.lock.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ControlPlaneError(f"{layout.root} is being started or removed by another process") from None
        shutil.rmtree(layout.root)


def load_ca(directory: Path) -> "CertificateAuthority":
    """Returns the CA of the instance. Raises ControlPlaneError if there is none yet."""
    layout = _layout(directory)
    try:
        return credentials.load_ca(layout)
    except (OSError, ValueError) as error:
        raise ControlPlaneError(f"the control plane in {layout.root} has no usable CA: {error}") from error


def create_ca(directory: Path) -> None:
    """Creates a CA in `directory` unless it has one, for webhooks of a cluster that is no instance. Raises OSError."""
    from shared.certificates import CertificateAuthority

    layout = _layout(directory)
    if not layout.certificate("ca").exists():
        layout.create()
        credentials.save_ca(layout, CertificateAuthority.generate(f"{layout.root.name[:50]}-ca"))


def kubeconfig(directory: Path) -> Path:
    """Returns the path of the admin's kubeconfig, which exists once the instance is ready.

    Its context has the name of the directory.
    """
    return _layout(directory).kubeconfig


def add_user(directory: Path, name: str, groups: Iterable[str] = ()) -> Path:
    """Returns the kubeconfig of a new user of the instance with these groups. The user's certificate is issued anew.

    Raises ControlPlaneError if the instance was never ready, ValueError for a name that is not a valid file name.
    """
    if not name or name.startswith(".") or os.sep in name or name == ADMIN:
        raise ValueError(f"{name!r} must be a file name that does not begin with a dot, and not admin")
    layout, url = _layout(directory), status(directory).url
    if not url or not layout.kubeconfig.exists():
        raise ControlPlaneError(f"the control plane in {layout.root} was never ready: start it first")
    credentials.issue_user(layout, name, groups)
    credentials.write_kubeconfig(layout, url, f"user-{name}", renew=True)
    return layout.kubeconfig_of(f"user-{name}")


def issue_webhook_certificates(directory: Path) -> Path:
    """Issues a certificate of the instance's CA for a server at localhost; returns the folder of tls.crt and tls.key.

    Raises ControlPlaneError if the instance was never started.
    """
    layout = _layout(directory)
    load_ca(directory)
    credentials.issue_webhooks(layout)
    return layout.webhooks


def _find(wanted: Sequence[str], kubernetes_version: str, progress: Callable[[str], None]) -> dict[str, Path]:
    """Returns the executables. Raises BinaryNotFound or ValueError."""
    from infra.local_control_plane import binaries, store
    from infra.local_control_plane.selectors import parse_selector

    if not kubernetes_version:
        if set(wanted) <= set(binaries.EXECUTABLES):
            return binaries.locate(wanted, progress=progress)
        # Controllers must not be newer than their API server, so all come from one place. The archive has no
        # controllers.
        return binaries.locate(wanted, progress=progress, archives=(), assets=binaries.in_assets(wanted))
    version, folder = store.use(parse_selector(kubernetes_version), progress=progress)
    progress(f"Kubernetes {version}")
    found = {name: folder / name for name in binaries.EXECUTABLES}
    if others := [name for name in wanted if name not in found]:
        store.refuse_unless_controllers_work_with(version)
        found |= binaries.locate(others, progress=progress, archives=(), assets=False)
    return found


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _ignore_progress(line: str) -> None:
    del line


def _layout(directory: Path) -> Layout:
    return Layout(directory.absolute())


def _end_of(log: Path) -> str:
    return f"the end of {log}:\n{files.tail(log) or '(empty)'}"


def _alive(layout: Layout) -> list[Process]:
    state = State.read(layout.state)
    return [process for process in state.processes if process.alive()] if state else []


def _place_ca(layout: Layout, ca: "CertificateAuthority") -> None:
    with contextlib.suppress(FileNotFoundError):
        if layout.certificate("ca").read_bytes().strip() != ca.cert_pem.strip():
            raise ControlPlaneError(f"the control plane in {layout.root} already has another CA")
        return
    layout.create()
    credentials.save_ca(layout, ca)


def _spawn_supervisor(
    layout: Layout,
    binaries: Mapping[str, Path],
    host: str,
    owner: int | None,
    timeout: float,
    network: Network | None,
    nodes: int,
    flags: Sequence[str],
) -> None:
    """Returns once a supervisor of this call or of another process runs. Raises ControlPlaneError if none starts."""
    layout.create()
    arguments = [f"--{name}={path.absolute()}" for name, path in binaries.items()]
    arguments += [f"--timeout={timeout}", f"--host={host}", f"--nodes={nodes}", *flags]
    if network:
        arguments += [f"--services={network.services}", *(["--node"] if network.has_node else [])]
    if owner is not None:
        process = Process.of(owner)
        if process is None:
            raise ControlPlaneError(f"{layout.root} is not started: the process {owner}, its owner, has ended")
        arguments.append(f"--owner={process.pid}:{process.started}")
    path = os.pathsep.join(filter(None, [str(_PROJECT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "infra.local_control_plane.supervisor", str(layout.root), *arguments]
    deadline = time.monotonic() + _MARGIN
    while True:
        with open(layout.log("supervisor"), "ab", opener=_private) as log:
            code = subprocess.run(
                command,
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                check=False,
            ).returncode
        if code == 0 or (code == LOCKED and status(layout.root).phase in ("starting", "ready")):
            return
        # A supervisor that is ending holds the lock until its end.
        if code != LOCKED or time.monotonic() > deadline:
            raise ControlPlaneError(
                f"no supervisor for {layout.root} (exit status {code}); {_end_of(layout.log('supervisor'))}"
            )
        time.sleep(0.1)
