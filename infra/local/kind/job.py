"""The job that creates or deletes a cluster. Its folder holds the order, the worker and the result.

A lock on the folder is held as long as the worker runs. It is taken before the worker starts, so a job is never started
twice. A job without lock and result was interrupted: the next worker continues it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from infra.local_control_plane import files
from infra.local_control_plane.processes import Process

_PROJECT = Path(__file__).parents[3]
_STEP = re.compile(r"^ • ([ -~]+)", re.M)


@dataclass(frozen=True)
class Order:
    """The order for the job.

    Attributes:
        action: Whether the cluster is to exist.
        uid: The uid of the KINDCluster.
        name: The name of the cluster.
        engine: The container engine; a cluster stays with the engine that created it.
        fields: The spec of the KINDCluster.
    """

    action: Literal["create", "delete"]
    uid: str
    name: str
    engine: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """The result of a job: `ready`, or `failed` with the class of the error. A successful deletion stores no result."""

    action: Literal["create", "delete"]
    phase: Literal["ready", "failed"]
    host: str = ""
    port: int = 0
    reason: str = ""
    error: str = ""
    retry_at: float = 0.0
    """Unix time."""
    version: str = ""
    """The version of Kubernetes in the nodes."""


class Job:
    """A job in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "kind.log"
        """The output of the kind program."""
        self.owner = folder / "owner"
        """The empty folder that is mounted into the nodes."""
        self.kubeconfig = folder / "kubeconfig"
        """The kubeconfig of a cluster that is ready."""

    def ca(self, kind: Literal["crt", "key"]) -> Path:
        """The CA of a cluster that is ready."""
        return self.folder / f"ca.{kind}"

    def own_ca(self, kind: Literal["crt", "key"]) -> Path:
        """The CA that the user provides."""
        return self.folder / f"own-ca.{kind}"

    @property
    def order(self) -> Order | None:
        """The latest order."""
        found = self._read("order.json")
        return Order(**found) if found else None

    @property
    def result(self) -> Result | None:
        """The result of the latest job; None while it works and after an interruption."""
        found = self._read("result.json")
        return Result(**found) if found else None

    @property
    def was_ready(self) -> bool:
        """Whether the cluster was ever ready."""
        return self.kubeconfig.exists()

    def report(self, result: Result | None) -> None:
        """Saves the result; None at the beginning of a job."""
        if result is None:
            (self.folder / "result.json").unlink(missing_ok=True)
        else:
            files.write(self.folder / "result.json", json.dumps(asdict(result)))

    @property
    def step(self) -> str:
        """The latest step in the log, without the symbols that kind adds."""
        found = _STEP.findall(files.tail(self.log, lines=100))
        return str(found[-1]).strip(" .") if found else ""

    @property
    def is_running(self) -> bool:
        """Whether a worker runs. Several processes may call this at the same time."""
        lock = self._take_lock(fcntl.LOCK_SH)
        if lock is None:
            return self.folder.exists()
        os.close(lock)
        return False

    def begin(self, order: Order) -> None:
        """Starts a worker for the order, unless one works."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.owner.mkdir(exist_ok=True)
        while (lock := self._take_lock()) is None:
            if self.is_running:
                return
            # Another process may call `is_running`, which holds the lock for a moment.
        try:
            files.write(self.folder / "order.json", json.dumps(asdict(order)))
            self.report(None)
            worker = [sys.executable, "-m", "infra.local.kind.worker"]
            path = os.pathsep.join(filter(None, [str(_PROJECT), os.environ.get("PYTHONPATH")]))
            with open(self.folder / "worker.log", "ab") as log:
                # The shell starts the worker in the background and ends: the worker is not waited for, and no child.
                subprocess.run(
                    ["/bin/sh", "-c", '"$0" "$@" &', *worker, str(self.folder), str(lock)],
                    env={**os.environ, "PYTHONPATH": path},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(lock,),
                    check=False,
                )
        finally:
            os.close(lock)

    def note_worker(self) -> None:
        """Saves which process works, for `interrupt`. The process leads a process group."""
        me = Process.of(os.getpid())
        files.write(self.folder / "worker.json", json.dumps(asdict(me)) if me else "{}")

    def interrupt(self) -> None:
        """Kills the worker and the programs that it started. Does nothing if none runs."""
        found = self._read("worker.json")
        process = Process(**found) if found else None
        if process and process.alive():
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGKILL)
            while process.alive():
                time.sleep(0.01)

    def _take_lock(self, mode: int = fcntl.LOCK_EX) -> int | None:
        try:
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(lock, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def _read(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / name).read_text())
        except (OSError, ValueError):
            return {}
        return found
