"""Processes that tests start: they end with the test run, even where that is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1


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
