"""Runs `capi-functions` as a user does, in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import processes
from tests.support.until import HANGS, until

CLI = [sys.executable, "-m", "infra.cli"]


def run(*arguments: str | Path, timeout: float = HANGS) -> subprocess.CompletedProcess[str]:
    return processes.run([*CLI, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, check=False)


def processes_of(folder: Path) -> list[str]:
    """Returns the command lines of running processes that name the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            environment = (entry / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if int(entry.name) != os.getpid() and (str(folder) in command or f"DATA={folder}" in environment):
            found.append(command)
    return found


def await_end(folder: Path) -> None:
    until(lambda: not processes_of(folder), "the end of all processes", details=lambda: processes_of(folder))
