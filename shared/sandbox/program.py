"""Runs a program under the same limits as a worker."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from .gate import GATE
from .limits import CRASHED, MIB, LimitExceeded, Limits, explain

MOST_OUTPUT = 32 * MIB
"""Bytes of each file that the program may write, standard error included."""

MOST_READ = 64 * 1024
"""Bytes that are read of the beginning of standard error, and of its end."""


def run(
    command: Sequence[str], *, input: str, cwd: Path, env: Mapping[str, str], limits: Limits
) -> subprocess.CompletedProcess[str]:
    """The program's exit status, and its standard error without the middle of a long one.

    Raises `LimitExceeded`, or `OSError` where it does not start.

    The program must read its standard input before it works: the limits are set before anything is written there.
    """
    with GATE, tempfile.TemporaryFile(dir=cwd) as errors:
        code = _run(command, input, cwd, env, limits, errors)
        stderr = _read(errors)
    if code < 0 or CRASHED.search(stderr[:4096]):
        raise LimitExceeded(explain(code, limits, stderr[:4096]))
    return subprocess.CompletedProcess(command, code, "", stderr)


def _run(
    command: Sequence[str], input: str, cwd: Path, env: Mapping[str, str], limits: Limits, errors: IO[bytes]
) -> int:
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=errors,
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


def _read(errors: IO[bytes]) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(0)
    if size <= 2 * MOST_READ:
        return errors.read().decode(errors="replace")
    begin = errors.read(MOST_READ)
    errors.seek(-MOST_READ, os.SEEK_END)
    return f"{begin.decode(errors='replace')} … {errors.read().decode(errors='replace')}"


def _limit(pid: int, limits: Limits) -> None:
    if not hasattr(resource, "prlimit"):  # only Linux can limit a process that runs already
        return
    for which, value in (
        (resource.RLIMIT_CPU, limits.cpu),
        (resource.RLIMIT_DATA, limits.memory * MIB),
        (resource.RLIMIT_FSIZE, MOST_OUTPUT),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.prlimit(pid, which, (value, value))
        except ProcessLookupError:
            return
