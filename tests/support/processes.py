"""Processes that tests start: they end with the test run, even where that is killed.

The kernel ends the children that `start` and `run` start. What detaches itself, as `capi-functions up --detach` does,
is ended by a guard: a process beside each process of the run, which waits for the end of that one, and then kills all
that still has its mark in the environment.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_MARK = "CAPI_TESTS_PROCESS"
_GUARD = """
import glob, os, signal, sys, time
sys.stdin.buffer.read()
mark, found = sys.argv[1].encode(), True
while found:
    found = False
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if mark in file.read():
                    found = True
                    os.kill(int(path.split("/")[2]), signal.SIGKILL)
        except OSError:
            pass
    time.sleep(0.1)
"""


def pytest_configure() -> None:
    """Marks all that this process starts from now on, and starts its guard."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        # A shell starts jobs in the background with Ctrl-C ignored, and tests send it to what they start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ[_MARK] = uuid.uuid4().hex
    # API servers collect garbage less often: a quarter less work, 100 MB more each.
    os.environ.setdefault("GOGC", "400")
    # Many of them share a few cores: with one running thread each, a request costs a sixth less CPU time.
    os.environ.setdefault("GOMAXPROCS", "1")
    command = [sys.executable, "-I", "-S", "-c", _GUARD, os.environ[_MARK]]
    watched, _held = os.pipe()  # this process never closes its end: only its own end does
    guard = subprocess.Popen(command, stdin=watched, env={}, cwd="/", start_new_session=True)
    os.close(watched)
    guard.returncode = 0  # it outlives this process: nobody waits for it, or warns that nobody did


def start(command: list[Any], **options: Any) -> subprocess.Popen[Any]:
    """Like subprocess.Popen, for a process that is killed when the calling thread ends, however that ends."""
    return subprocess.Popen(command, preexec_fn=_ending_with(os.getpid()), **options)


def run(command: list[Any], **options: Any) -> subprocess.CompletedProcess[Any]:
    """Like subprocess.run, for a process that is killed when the calling thread ends, however that ends."""
    return subprocess.run(command, preexec_fn=_ending_with(os.getpid()), **options)


def with_environment(text: str) -> dict[int, str]:
    """Returns the command lines, by pid, of the processes that have `text` somewhere in their environment."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it has ended, or is another user's
    return found


def parent(pid: int) -> int:
    """Returns the pid of the parent of a process; 0 if there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _ending_with(parent: int) -> Callable[[], None]:
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork, where little is safe to do

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return end_with_parent
