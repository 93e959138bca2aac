"""Runs a program with the same limits as a worker."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from . import confine
from .limits import CRASHED, MIB, LimitExceeded, Limits, explain
from .slots import slot

MAX_OUTPUT = 32 * MIB
"""The maximum size of a file of the program, in bytes; standard error is such a file, too."""

MAX_STDERR = 64 * 1024
"""The bytes that are read from the beginning and from the end of standard error."""


def run(
    command: Sequence[str],
    *,
    input: str,
    cwd: Path,
    env: Mapping[str, str],
    limits: Limits,
    read: Sequence[str] = (),
    port: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs the program, and returns exit status and standard error; the middle of a long standard error is left out.

    The program is confined (`confine`): it writes to `cwd` alone, reads `read` and the files that all programs need,
    and connects to TCP port `port` or not at all.

    Raises `LimitExceeded`, `Busy` if no slot becomes free, or `OSError` if the program does not start.
    """
    options = {"read": read, "write": str(cwd), "port": port, "limits": _limits(limits)}
    # Not `preexec_fn`, because hardly anything is safe between fork and exec of a process with threads.
    confined = [sys.executable, "-I", "-S", "-B", confine.__file__, json.dumps(options), *command]
    with slot(), tempfile.TemporaryFile(dir=cwd) as stderr_file:
        code = _run(confined, input, cwd, env, limits, stderr_file)
        stderr = _read_ends(stderr_file)
    if code == confine.NOT_STARTED:
        raise OSError(stderr.strip())
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


def _limits(limits: Limits) -> list[tuple[int, int]]:
    return [
        (resource.RLIMIT_CPU, limits.cpu),
        (resource.RLIMIT_DATA, limits.memory * MIB),
        (resource.RLIMIT_FSIZE, MAX_OUTPUT),
        (resource.RLIMIT_CORE, 0),
    ]
