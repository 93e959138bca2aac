"""A function behind the server that functions have in pods, and raw connections to it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import urllib3

from functions import serving
from infra.generate.__main__ import PROJECT
from shared.event import Event, issue
from tests.support import processes
from tests.support.until import HANGS, until

HTTP = urllib3.PoolManager(retries=False)


class Served:
    """`slow_function` at `url`; the process ends with the test."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.log = folder / "served.log"
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        program, *arguments = serving.command("", f"--bind=127.0.0.1:{self.port}")
        arguments[-1] = 'functions_framework:create_app("slow", "tests/support/slow_function.py")'
        with self.log.open("ab") as log:
            self.process: subprocess.Popen[bytes] = processes.start(
                [str(Path(sys.executable).with_name(program)), *arguments],
                cwd=PROJECT,
                env={**os.environ, "PYTHONPATH": str(PROJECT), **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        until(self._answers, f"the server, see {self.log}")

    def _answers(self) -> bool:
        with suppress(urllib3.exceptions.HTTPError):
            return HTTP.request("GET", self.url, timeout=HANGS).status == 200
        return False

    def post(self, seconds: float = 0.0, **headers: str) -> int:
        """Posts an event on a new connection, and returns the status."""
        event = issue(Event(type="dev.capi-functions.test", source="/test", id="", data={"seconds": seconds}))
        given, body = event.to_http()
        given |= {"connection": "close", **headers}
        return HTTP.request("POST", self.url, headers=given, body=body, timeout=HANGS).status

    @property
    def worker(self) -> int:
        """The id of the process that answers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def peak_mib(self) -> float:
        """The most memory that the worker has had since its start, in MiB."""
        [line] = [x for x in Path(f"/proc/{self.worker}/status").read_text().splitlines() if x.startswith("VmHWM")]
        return int(line.split()[1]) / 1024

    def close(self) -> None:
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextmanager
def open_connections(port: int, count: int, begin: bytes) -> Iterator[list[socket.socket]]:
    """Opens connections that send `begin`, and keeps them open."""
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            opened.append(socket.create_connection(("127.0.0.1", port), timeout=HANGS))
            with suppress(OSError):
                opened[-1].sendall(begin)
        yield opened
    finally:
        for connection in opened:
            connection.close()


def exchange(port: int, request: bytes) -> bytes:
    """Sends bytes, as far as the server takes them, and returns what it answers until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=HANGS) as connection:
        with suppress(OSError):
            connection.sendall(request)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    """Returns what is received until the server closes the connection."""
    received = b""
    with suppress(ConnectionError):
        while data := connection.recv(65536):
            received += data
    return received
