"""The process of the local object store (`infra.object_store`)."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from infra.object_store import HOST, ObjectStoreError, listen, start, wait_ready
from tests.support.until import until


def test_stop_ends_the_process() -> None:
    server = start()
    wait_ready(server.url)
    server.stop()
    assert server.process.returncode == -signal.SIGTERM
    with pytest.raises(TimeoutError):
        wait_ready(server.url, timeout=0.2)


def test_server_that_ended_is_not_waited_for() -> None:
    server = start()
    server.process.kill()
    with pytest.raises(ObjectStoreError, match=r"ended with status -9; .* `capi-functions doctor`"):
        server.wait_ready()
    server.stop()


def test_process_ends_with_its_parent() -> None:
    code = "import infra.object_store as o, os; s = o.start(); print(s.process.pid, flush=True); os._exit(1)"
    parent = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    child = int(parent.stdout)
    until(lambda: not _runs(child), "the end of the server")


def test_port_of_the_command_line_is_used() -> None:
    with listen() as listener:
        port = listener.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "infra.object_store", "--port", str(port)])
    try:
        wait_ready(f"http://{HOST}:{port}")
    finally:
        process.terminate()
        process.wait()


def test_port_in_use_is_an_error() -> None:
    with listen() as listener, pytest.raises(OSError, match="in use"):
        start(listener.getsockname()[1])


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
