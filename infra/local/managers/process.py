"""Keeps the process of one manager running: health checks, restarts with back-off, a clean end."""

from __future__ import annotations

import http.client
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from infra.local_control_plane import files, processes

from .command import ManagerError

_CHECKS = ("/healthz", "/readyz")
_FIRST_INTERVAL = 0.1  # seconds between checks until the manager is healthy
_GRACE = 10.0  # seconds between SIGTERM and SIGKILL


class ManagerProcess:
    """The process of one manager, between `start` and `stop`.

    A thread spawns it, because the kernel ends it with the spawning thread. A manager that ends before it is healthy
    for the first time is not restarted, because its configuration is wrong. Later it is restarted after `backoff`
    seconds, doubled with each end up to `longest_backoff`, and reset after it was healthy for that long. A process is
    killed if it does not answer `failures` health checks in a row, or is not healthy `patience` seconds after its
    start.

    Args:
        name: The name for messages.
        program: The executable.
        arguments: The command line, with the name of the program.
        environment: The whole environment.
        log: Its log; the former process's log is kept as `<log>.previous`.
        health: Host and port of /healthz and /readyz.
        changed: Called from the thread when it becomes healthy or unhealthy.
    """

    interval = 10.0
    failures = 3
    patience = 120.0
    backoff = 1.0
    longest_backoff = 60.0

    def __init__(
        self,
        name: str,
        program: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        *,
        health: tuple[str, int],
        changed: Callable[[bool], None] = lambda _healthy: None,
    ) -> None:
        self.name = name
        self.log = log
        self._program = program
        self._arguments = arguments
        self._environment = environment
        self._health = health
        self._changed = changed
        self._stopping = threading.Event()
        self._was_healthy = False
        self._error: ManagerError | None = None
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name=f"manager {name}", daemon=True)

    @property
    def pid(self) -> int:
        """The pid of the process; 0 while there is none."""
        child = self._child
        return child.pid if child is not None else 0

    @property
    def error(self) -> ManagerError | None:
        """Why the manager is not restarted, if it ended before it was healthy for the first time."""
        return self._error

    def start(self) -> None:
        """Starts the process, without waiting for it."""
        self._thread.start()

    def terminate(self) -> None:
        """Asks the process to end, and starts no further process. Does not wait."""
        self._stopping.set()
        self._signal(signal.SIGTERM)

    def stop(self) -> None:
        """Ends the process, and waits for its end. Does nothing if it was not started."""
        self.terminate()
        if self._thread.is_alive():
            self._thread.join(_GRACE)
            if self._thread.is_alive():
                self._signal(signal.SIGKILL)
                self._thread.join(_GRACE)

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            if self._child is not None:
                _signal(self._child, number)

    def _run(self) -> None:
        pause = self.backoff
        while not self._stopping.is_set():
            try:
                healthy_since = self._run_once()
            except OSError as error:
                self._error = ManagerError(f"manager {self.name} cannot be started: {error}")
                return
            if self._error is not None or self._stopping.is_set():
                return
            if healthy_since is not None and time.monotonic() - healthy_since > self.longest_backoff:
                pause = self.backoff
            self._stopping.wait(pause)
            pause = min(2 * pause, self.longest_backoff)

    def _run_once(self) -> float | None:
        """Runs the process until its end. Returns since when it was healthy, None if it never was. Raises OSError."""
        with self._lock:
            if self._stopping.is_set():
                return None
            child = self._child = processes.spawn(
                self._arguments,
                executable=self._program,
                directory=self.log.parent,
                log=self.log,
                environment=self._environment,
            )
        began = time.monotonic()
        healthy_since: float | None = None
        failed, gave_up = 0, False
        while not _ended_within(child, _FIRST_INTERVAL if healthy_since is None else self.interval):
            if self._is_healthy():
                failed = 0
                if healthy_since is None:
                    healthy_since = time.monotonic()
                    self._was_healthy = True
                    self._changed(True)
            elif healthy_since is not None:
                failed += 1
                if failed == self.failures:
                    _signal(child, signal.SIGKILL)
            elif time.monotonic() - began > self.patience:
                gave_up = True
                _signal(child, signal.SIGKILL)
        _signal(child, signal.SIGKILL)  # children of it may be left
        with self._lock:
            self._child = None
        if healthy_since is not None:
            self._changed(False)
        elif not self._was_healthy and not self._stopping.is_set():
            code = child.returncode
            how = signal.Signals(-code).name if code < 0 else f"status {code}"
            end = files.tail(self.log) or "(empty)"
            what = (
                f"was not healthy within {self.patience:g} s" if gave_up else f"exited with {how} before it was healthy"
            )
            self._error = ManagerError(f"manager {self.name} {what}; the end of {self.log}:\n{end}")
        return healthy_since

    def _is_healthy(self) -> bool:
        connection = http.client.HTTPConnection(*self._health, timeout=2)
        try:
            for path in _CHECKS:
                connection.request("GET", path)
                response = connection.getresponse()
                response.read(200)
                if response.status != http.client.OK:
                    return False
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return True


def _ended_within(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Waits for the end of a process for at most `seconds`, without polling if the kernel has pidfds."""
    if child.poll() is not None:
        return True
    descriptor = processes.watch(child.pid)
    if descriptor is None:
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(seconds * 1000)
    finally:
        os.close(descriptor)
    return child.poll() is not None


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):
        return
