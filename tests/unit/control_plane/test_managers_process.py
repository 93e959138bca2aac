"""The process of one manager: health, restarts and the end. The managers are small programs."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from infra.local.managers.managers import Managers, _Running
from infra.local.managers.process import ManagerProcess
from shared.kube import Client, Key
from tests.support.ports import free_port
from tests.support.until import until

HEALTHY = """
import http.server, pathlib, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        sick = pathlib.Path("sick").exists() and self.path == "/readyz"
        self.send_response(500 if sick else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *arguments): pass
print("serving", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
Start = Callable[[str], tuple[ManagerProcess, list[bool]]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[ManagerProcess] = []

    def start(program: str) -> tuple[ManagerProcess, list[bool]]:
        changes: list[bool] = []
        port = free_port()
        process = ManagerProcess(
            "capi",
            Path(sys.executable),
            [sys.executable, "-c", program, str(port)],
            os.environ,
            tmp_path / "capi.log",
            health=("127.0.0.1", port),
            changed=changes.append,
        )
        process.backoff, process.interval = 0.01, 0.01
        started.append(process)
        process.start()
        return process, changes

    yield start
    for process in started:
        process.stop()


def error_of(process: ManagerProcess) -> str:
    until(lambda: process.error is not None, "given up")
    return str(process.error)


def test_manager_that_exits_at_once_is_named_with_the_end_of_its_log(start: Start) -> None:
    process, changes = start("print('unknown flag: --x'); raise SystemExit(3)")
    assert re.match(r"manager capi exited with status 3 before it was healthy(.|\n)*unknown", error_of(process))
    assert changes == []


def test_program_that_is_missing_is_named(tmp_path: Path) -> None:
    process = ManagerProcess("capi", tmp_path / "none", ["capi"], {}, tmp_path / "capi.log", health=("127.0.0.1", 1))
    process.start()
    assert re.match(r"manager capi cannot be started: .*none", error_of(process))
    process.stop()


def test_killed_manager_is_started_again_and_its_former_log_is_kept(start: Start, tmp_path: Path) -> None:
    process, changes = start(HEALTHY)
    until(lambda: changes == [True], "healthy", details=lambda: changes)
    for expected in ([True, False, True], [True, False, True, False, True]):
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: changes == expected, "started again", details=lambda: changes)  # noqa: B023 - called in the loop
    assert (tmp_path / "capi.log.previous").read_text() == "serving\n"


def test_manager_that_is_no_longer_healthy_is_started_again(start: Start, tmp_path: Path) -> None:
    process, changes = start(HEALTHY)
    until(lambda: changes == [True], "healthy", details=lambda: changes)
    first = process.pid
    (tmp_path / "sick").touch()
    until(lambda: changes == [True, False], "killed", details=lambda: changes)
    (tmp_path / "sick").unlink()
    until(lambda: changes == [True, False, True], "started again", details=lambda: changes)
    assert process.pid != first


def test_manager_that_does_not_get_healthy_is_ended_and_named_with_the_end_of_its_log(start: Start) -> None:
    process, changes = start("import time; print('waiting for a lease', flush=True); time.sleep(600)")
    until(lambda: process.log.exists() and "lease" in process.log.read_text(), "its log")
    process.patience = 0.01
    expected = r"manager capi was not healthy within 0.01 s; the end of (.|\n)*waiting for a lease"
    assert re.match(expected, error_of(process))
    assert (process.pid, changes) == (0, [])


def test_stopped_manager_has_ended_and_is_not_started_again(start: Start) -> None:
    process, changes = start(HEALTHY)
    until(lambda: changes == [True], "healthy", details=lambda: changes)
    process.stop()
    assert (process.pid, changes) == (0, [True, False])
    process.stop()


def test_manager_can_be_stopped_while_it_starts(start: Start) -> None:
    process, changes = start("import time; time.sleep(600)")
    process.stop()
    assert (process.pid, changes) == (0, [])


def test_managers_end_in_the_reverse_order_of_their_start(tmp_path: Path) -> None:
    ended: list[str] = []

    class Noted(ManagerProcess):
        def terminate(self) -> None:
            ended.append(self.name)
            super().terminate()

    managers = Managers(tmp_path, tmp_path, cast("Client", None))  # is not asked for anything
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    names = ("core", "kubeadm", "docker")
    for name in names:
        log = tmp_path / f"{name}.log"
        process = Noted(name, Path(sys.executable), command, os.environ, log, health=("127.0.0.1", free_port()))
        managers._running[Key("", name)] = _Running({}, ("", 1), process)
        process.start()
    until(lambda: all(managers.pids.values()), "all run")
    managers.stop()
    assert ended[: len(names)] == ["docker", "kubeadm", "core"]
    assert managers.pids == dict.fromkeys(names, 0)
