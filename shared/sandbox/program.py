"""Runs a program with the same limits as a worker."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from .limits import CRASHED, MIB, LimitExceeded, Limits, explain
from .slots import slot

MAX_OUTPUT = 32 * MIB
"""The size in bytes to which the program may write a file; standard error is one, too."""

MAX_STDERR = 64 * 1024
"""The bytes that are read of the beginning, and of the end, of standard error."""


def run(
    command: Sequence[str], *, input: str, cwd: Path, env: Mapping[str, str], limits: Limits
) -> subprocess.CompletedProcess[str]:
    """Runs the program, and returns exit status and standard error; the middle of a long standard error is left out.

    Raises `LimitExceeded`, `Busy` if no slot becomes free, or `OSError` if the program does not start.

    The limits are set once the program runs, before its input is written. So the program must read its standard input
    first.
    """
    with slot(), tempfile.TemporaryFile(dir=cwd) as stderr_file:
        code = _run(command, input, cwd, env, limits, stderr_file)
        stderr = _read_ends(stderr_file)
    if code < 0 or CRASHED.search(stderr[:4096]):
        raise LimitExceeded(explain(code, limits, stderr[:4096]))
    return subprocess.CompletedProcess(command, code, "", stderr)


def _run(
    command: Sequence[str], input: str, cwd: Path, env: Mapping[str, str], limits: Limits, stderr: IO[bytes]
) -> int:
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        cwd=cwd,
        env=dict(env),
        start_new_session=True,
    )
    with process:
        _limit(process.pid, limits)
        try:
            process.communicate(input.encode(), timeout=limits.wall)
        except subprocess.TimeoutExpired:
            process.kill()
            raise LimitExceeded(f"took longer than {limits.wall:g} s") from None
        except BaseException:
            process.kill()
            raise
    return process.returncode


def _read_ends(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= 2 * MAX_STDERR:
        return file.read().decode(errors="replace")
    begin = file.read(MAX_STDERR)
    file.seek(-MAX_STDERR, os.SEEK_END)
    return f"{begin.decode(errors='replace')} … {file.read().decode(errors='replace')}"


def _limit(pid: int, limits: Limits) -> None:
    """Sets the limits of a running process; only Linux supports this."""
    if not hasattr(resource, "prlimit"):
        return
    for which, value in (
        (resource.RLIMIT_CPU, limits.cpu),
        (resource.RLIMIT_DATA, limits.memory * MIB),
        (resource.RLIMIT_FSIZE, MAX_OUTPUT),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.prlimit(pid, which, (value, value))
        except ProcessLookupError:
            return
