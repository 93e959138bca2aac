"""Start, look at, stop and remove instances. Every function may be called from any process at any time."""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from infra.local_control_plane import controllers as loops
from infra.local_control_plane import credentials, files
from infra.local_control_plane.layout import LOCKED, Layout
from infra.local_control_plane.processes import Process
from infra.local_control_plane.state import State

if TYPE_CHECKING:
    from shared.certificates import Authority

_SLACK = 20.0  # seconds for whatever is not the servers' start: lookups, the end of a former run
_PROJECT = Path(__file__).parents[2]


class ControlPlaneError(Exception):
    """An instance could not be started, stopped or removed; the message names its directory."""


@dataclass(frozen=True)
class Status:
    """What is known of an instance.

    `phase` is "absent" (nothing there), "starting", "ready", "failed" (see `error`) or "stopped". `url`,
    `host` and `port` say where it listens or listened last ("" and 0: never did). `pid` is the keeper's, None
    if it does not run.
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
    ca: "Authority | None" = None,
    owner: int | None = None,
    progress: Callable[[str], None] | None = None,
    timeout: float = 60.0,
    wait: bool = True,
    binaries: Mapping[str, Path] | None = None,
    controllers: bool = False,
) -> Status:
    """Run the instance in `directory`, created if absent; nothing happens if it runs already.

    `ca` becomes the authority of a new instance (default: a new one). The instance ends when process `owner`
    does (None: when `stop` is called). `timeout` is in seconds from the start of the servers until they are
    ready; with `wait` false the answer comes at once, mostly with phase "starting". `binaries` maps "etcd",
    "kube-apiserver" and so on to executables (default: `binaries.locate`). `controllers` runs what makes pods
    Ready and collects garbage beside them (see controllers.py), also the next time only if it is asked for.

    Raises ControlPlaneError, with the end of the log, if the instance does not get ready or has another CA,
    and `binaries.BinaryNotFound`.
    """
    layout = _layout(directory)
    say = progress or _silent
    if ca is not None:
        _place_authority(layout, ca)
    if status(directory).phase not in ("starting", "ready"):
        wanted = ["etcd", "kube-apiserver", *(loops.NAMES if controllers else ())]
        if binaries is None:
            from infra.local_control_plane.binaries import locate

            # Controllers must not be newer than their API server, and the archive has none of its own.
            binaries = locate(wanted, progress=say, archives=() if controllers else None)
        say(f"starting the control plane in {layout.root}")
        _spawn_keeper(layout, {name: binaries[name] for name in wanted}, owner, timeout)
    if not wait:
        return status(directory)
    deadline = time.monotonic() + timeout + _SLACK
    while (now := status(directory)).phase == "starting" and time.monotonic() < deadline:
        time.sleep(0.02)
    if now.phase != "ready":
        reason = now.error or f"it is {now.phase}; {_end_of(layout.log('keeper'))}"
        raise ControlPlaneError(f"the control plane in {layout.root} did not get ready: {reason}")
    return now


def status(directory: Path) -> Status:
    """What the instance is doing. Never blocks; what an ended keeper left behind does not read as running."""
    state = State.read(_layout(directory).state)
    if state is None:
        return Status("absent")
    running = state.keeper is not None and state.keeper.alive()
    phase = state.phase if running or state.phase == "failed" else "stopped"
    host = urlsplit(state.url).hostname or ""
    pid = state.keeper.pid if state.keeper and running else None
    return Status(phase, state.url, host, state.port, state.error, pid)


def stop(directory: Path, timeout: float = 20.0) -> None:
    """End the instance and wait until none of its processes is left; nothing happens if none is.

    After `timeout` seconds they are killed. Raises ControlPlaneError if even that does not help.
    """
    layout = _layout(directory)
    for number, patience in ((signal.SIGTERM, timeout), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + patience
        told: set[Process] = set()
        while alive := _alive(layout):
            # The keeper ends its servers, in order; they hear from us only when it is dead, or too slow.
            targets = alive if number == signal.SIGKILL else alive[:1]
            for process in set(targets) - told:
                process.signal(number)
                told.add(process)
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        else:
            return
    raise ControlPlaneError(f"processes of {layout.root} do not end: {[process.pid for process in alive]}")


def remove(directory: Path) -> None:
    """Stop the instance and delete its directory; nothing happens if there is no such directory.

    Raises ControlPlaneError, and deletes nothing, if the directory is not one of an instance.
    """
    layout = _layout(directory)
    if not layout.root.exists():
        return
    if not (layout.state.is_file() and layout.lock.is_file()):
        raise ControlPlaneError(f"{layout.root} is not the directory of a control plane")
    stop(directory)
    # Somebody else may be removing it at the same time.
    with contextlib.suppress(FileNotFoundError), layout.lock.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ControlPlaneError(f"{layout.root} is being started or removed by somebody else") from None
        shutil.rmtree(layout.root)


def authority(directory: Path) -> "Authority":
    """The CA of the instance. Raises ControlPlaneError if it has none (yet)."""
    layout = _layout(directory)
    try:
        return credentials.load_authority(layout)
    except (OSError, ValueError) as error:
        raise ControlPlaneError(f"the control plane in {layout.root} has no usable CA: {error}") from error


def kubeconfig(directory: Path) -> Path:
    """Where the admin's kubeconfig is once the instance is ready (mode 0600; context: the folder's name)."""
    return _layout(directory).kubeconfig


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _silent(line: str) -> None:
    del line


def _layout(directory: Path) -> Layout:
    return Layout(directory.absolute())


def _end_of(log: Path) -> str:
    return f"the end of {log}:\n{files.tail(log) or '(empty)'}"


def _alive(layout: Layout) -> list[Process]:
    state = State.read(layout.state)
    return [process for process in state.processes if process.alive()] if state else []


def _place_authority(layout: Layout, ca: "Authority") -> None:
    with contextlib.suppress(FileNotFoundError):
        if layout.certificate("ca").read_bytes().strip() != ca.cert_pem.strip():
            raise ControlPlaneError(f"the control plane in {layout.root} has another CA already")
        return
    layout.create()
    credentials.save_authority(layout, ca)


def _spawn_keeper(layout: Layout, binaries: Mapping[str, Path], owner: int | None, timeout: float) -> None:
    """Returns when a keeper, ours or another, has the instance. Raises ControlPlaneError if none gets it."""
    layout.create()
    arguments = [f"--{name}={path.absolute()}" for name, path in binaries.items()]
    arguments.append(f"--timeout={timeout}")
    if owner is not None:
        process = Process.of(owner)
        if process is None:
            raise ControlPlaneError(f"{layout.root} is not started: its owner, process {owner}, has ended")
        arguments.append(f"--owner={process.pid}:{process.started}")
    path = os.pathsep.join(filter(None, [str(_PROJECT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "infra.local_control_plane.keeper", str(layout.root), *arguments]
    deadline = time.monotonic() + _SLACK
    while True:
        with open(layout.log("keeper"), "ab", opener=_private) as log:
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
        # Another keeper is on its way out, and holds the lock until it is.
        if code != LOCKED or time.monotonic() > deadline:
            raise ControlPlaneError(
                f"no keeper for {layout.root} (exit status {code}); {_end_of(layout.log('keeper'))}"
            )
        time.sleep(0.1)
