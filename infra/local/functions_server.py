"""Runs the server of functions as a child process, on a socket of the parent.

The parent listens and passes the socket to gunicorn. So there is no race for a port, and while the server restarts,
clients wait in the socket's queue.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from functions import serving
from infra import allocator
from infra.local_control_plane import processes

ROOT = Path(__file__).parents[2]


class FunctionsServer:
    """A server of all functions, or of one, at `url`. It can be started and stopped any number of times."""

    def __init__(self, environment: Mapping[str, str], log: Path, *, function: str = "", port: int = 0) -> None:
        self._environment = {"THREADS": "16", **allocator.VARIABLES, **environment}
        self._log = log
        self._function = function
        self._listener = socket.create_server(("127.0.0.1", port), backlog=256)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address, the same after each restart."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def start(self) -> None:
        """Starts the server without waiting for it. Call it from the main thread, because the server ends with that."""
        descriptor = self._listener.fileno()
        name, *arguments = serving.command(self._function, f"--bind=fd://{descriptor}")
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                [Path(sys.executable).with_name(name), *arguments],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[descriptor],
                process_group=0,
                preexec_fn=processes.die_with_parent(signal.SIGTERM),
            )

    def kill(self) -> None:
        """Kills the server: requests in flight are lost."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends the server after its requests in flight; kills it after 10 s."""
        self._end(signal.SIGTERM)

    def close(self) -> None:
        """Ends the server, and closes its socket."""
        self.stop()
        self._listener.close()

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            processes.end(self.process, number)
            self.process = None
