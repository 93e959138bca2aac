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
"""Bytes of each file that the program may write, standard error included."""

MAX_STDERR = 64 * 1024
"""Bytes of the beginning and of the end of standard error that are read."""


def run(
    command: Sequence[str], *, input: str, cwd: Path, env: Mapping[str, str], limits: Limits
) -> subprocess.CompletedProcess[str]:
    """Runs the program and returns its exit status and its standard error, of a long one the beginning and the end.

    Raises `LimitExceeded`, `Busy` if no slot becomes free, or `OSError` if the program does not start.

    The program must read its standard input before it starts to work: the limits are set before input is written.
    """
    with slot(), tempfile.TemporaryFile(dir=cwd) as errors:
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
    if size <= 2 * MAX_STDERR:
        return errors.read().decode(errors="replace")
    begin = errors.read(MAX_STDERR)
    errors.seek(-MAX_STDERR, os.SEEK_END)
    return f"{begin.decode(errors='replace')} … {errors.read().decode(errors='replace')}"


def _limit(pid: int, limits: Limits) -> None:
    """Sets the limits of a running process, where the system allows that."""
    if not hasattr(resource, "prlimit"):  # only Linux can limit a running process
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
