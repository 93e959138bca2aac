"""The functions and the forwarder as processes, and what they use.

`CAPI_FUNCTIONS_PROFILES=addons` restricts them to what acts beside a live Cluster API core.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import urllib3

from infra import allocator
from infra.local.functions_server import ROOT, FunctionsServer
from infra.local_control_plane import ports
from shared.event import Event

from .parts import cpu_seconds, rss_mib, since

QUIET = 1.5
"""Seconds without CPU use after which all work counts as done."""
_LONGEST = 60.0


class Running:
    """Processes whose use of CPU and memory is measured."""

    pids: Mapping[str, int]
    """The ids of the processes by name."""

    def cpu(self) -> dict[str, float]:
        """Returns the CPU seconds so far by name."""
        return {name: cpu_seconds(pid) for name, pid in self.pids.items()}

    def wait_quiet(self) -> float:
        """Waits until the processes use no CPU, for a minute at most; returns the time of the last use."""
        begun = time.perf_counter()
        last, at = -1.0, begun
        while since(at) < QUIET and since(begun) < _LONGEST:
            now = sum(self.cpu().values())
            if now - last > 0.05:
                last, at = now, time.perf_counter()
            time.sleep(0.1)
        return at

    @contextmanager
    def peak_memory(self) -> Iterator[dict[str, float]]:
        """Yields the largest memory in MiB by name, complete after the block; sampled twice a second."""
        peak: dict[str, float] = {}
        ended = threading.Event()

        def sample() -> None:
            for name, pid in self.pids.items():
                peak[name] = max(peak.get(name, 0.0), rss_mib(pid))

        def watch() -> None:
            while not ended.wait(0.5):
                sample()

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield peak
        finally:
            ended.set()
            thread.join()
            sample()


class Processes(Running):
    """The functions in one process and the forwarder; they can be restarted at their addresses."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        held = ports.hold()
        self._port = held.getsockname()[1]
        held.close()
        self._environment = {**allocator.VARIABLES, **os.environ, "K_SINK": self.ingress, "LOG_LEVEL": "WARNING"}
        self._functions = FunctionsServer(self._environment, folder / "functions.log")
        self._forwarder: subprocess.Popen[bytes] | None = None
        self._ended: dict[str, float] = {}
        """CPU seconds of killed processes by name."""

    @property
    def ingress(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def pids(self) -> dict[str, int]:  # type: ignore[override]
        found = {"functions": self._functions.process, "forwarder": self._forwarder}
        return {name: process.pid for name, process in found.items() if process is not None}

    def cpu(self) -> dict[str, float]:
        """Returns the CPU seconds so far by name, with those of processes that were killed."""
        used = dict(self._ended)
        for name, pid in self.pids.items():
            used[name] = used.get(name, 0.0) + cpu_seconds(pid)
        return used

    def start(self) -> None:
        self._functions.start()
        command = [sys.executable, "-m", "infra.forwarder", "--functions", self._functions.url]
        with (self._folder / "forwarder.log").open("ab") as log:
            self._forwarder = subprocess.Popen(
                [*command, "--port", str(self._port)], cwd=ROOT, env=self._environment, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """Kills all processes at once, like the failure of a machine."""
        self._ended = self.cpu()
        self._functions.kill()
        if self._forwarder is not None:
            self._forwarder.send_signal(signal.SIGKILL)
            self._forwarder.wait()
            self._forwarder = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def close(self) -> None:
        self.kill()
        self._functions.close()

    def send(self, event: Event) -> None:
        headers, body = event.to_http()
        assert urllib3.request("POST", self.ingress, headers=headers, body=body, retries=False).status == 202
