"""A run of the tests that is killed, or hangs, leaves no process behind, and a test that hangs is named."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import hanging, processes
from tests.support.until import HANGS, until

PROJECT = Path(__file__).parents[2]
SERVERS = (
    "kube-apiserver",
    "etcd",
    "functions_framework",
    "moto_server",
    "shared.sandbox.child",
    "time.sleep",
    "sleep 3601",
)


@dataclass
class Run:
    """A run of pytest whose processes all have `folder` in their environment."""

    folder: Path
    process: subprocess.Popen[bytes]

    def processes(self) -> dict[int, str]:
        return processes.with_environment(str(self.folder))

    def workers(self) -> set[int]:
        """The worker processes of xdist."""
        return {pid for pid, command in self.processes().items() if "exec(eval(sys.stdin.readline()))" in command}

    def ancestors_of(self, name: str) -> set[int]:
        """The processes above those with `name` in their command."""
        found = {pid for pid, command in self.processes().items() if name in command}
        while above := {processes.parent(pid) for pid in found} - found - {0}:
            found |= above
        return found

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def until_hanging(self, tests: int) -> None:
        until(lambda: len(list((self.folder / "ready").iterdir())) == tests, "hanging tests", details=self.log)

    def until_gone(self) -> None:
        until(lambda: not self.processes(), "the end of all processes", details=self.processes, pause=0.2)


StartRun = Callable[..., Run]


@pytest.fixture
def start_run(tmp_path: Path) -> Iterator[StartRun]:
    """Starts a run of the hanging tests in a process group of its own, with more arguments for pytest."""
    (tmp_path / "ready").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    # A sandbox gets nothing of the environment but where Python finds modules.
    environment |= {hanging.READY: str(tmp_path / "ready"), "PYTHONPATH": str(tmp_path)}
    runs: list[Run] = []

    def start(*arguments: str) -> Run:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}"]
        with (tmp_path / "log").open("wb") as log:
            process = processes.start(
                [*command, *arguments],
                cwd=PROJECT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        runs.append(Run(tmp_path, process))
        return runs[-1]

    yield start
    for run in runs:
        for pid in run.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.process.wait()


FILE = "tests/support/hanging.py"
IN_WORKERS = ("--numprocesses=2", "--dist=load", FILE)


def test_killed_run_leaves_no_process(start_run: StartRun) -> None:
    run = start_run(*IN_WORKERS)
    run.until_hanging(2)
    commands = "\n".join(run.processes().values())
    assert [name for name in SERVERS if name not in commands] == []
    run.process.kill()
    run.until_gone()


def test_killed_worker_and_interrupted_run_leave_no_process(start_run: StartRun) -> None:
    run = start_run(*IN_WORKERS)
    run.until_hanging(2)
    [worker] = run.ancestors_of("functions_framework") & run.workers()
    os.kill(worker, signal.SIGKILL)
    until(
        lambda: "kube-apiserver" not in str(run.processes()), "the end of the worker's servers", details=run.processes
    )
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.process.wait(HANGS) == pytest.ExitCode.INTERRUPTED
    assert re.search(rf"worker 'gw\d' crashed while running '{FILE}::test_with_servers'", run.log()), run.log()
    run.until_gone()


def test_hanging_test_is_named_and_leaves_no_process(start_run: StartRun) -> None:
    run = start_run("--timeout=20", f"{FILE}::test_with_an_object_store")
    assert run.process.wait(HANGS) == pytest.ExitCode.TESTS_FAILED
    # ERROR: the machine is so busy that the time was over while the fixtures were set up.
    assert re.search(rf"(FAILED|ERROR) {FILE}::test_with_an_object_store", run.log()), run.log()
    assert "Failed: Timeout (>20.0s)" in run.log()
    run.until_gone()
