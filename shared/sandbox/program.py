"""Runs a program under the same limits as a worker."""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .gate import GATE
from .limits import CRASHED, MIB, LimitExceeded, Limits, explain

MOST_OUTPUT = 32 * MIB
"""Bytes of each file that the program may write."""


def run(
    command: Sequence[str], *, input: str, cwd: Path, env: Mapping[str, str], limits: Limits
) -> subprocess.CompletedProcess[str]:
    """The program's exit status and standard error. Raises `LimitExceeded`, or `OSError` where it does not start.

    The program must read its standard input before it works: the limits are set before anything is written there.
    """
    with GATE:
        return _run(command, input, cwd, env, limits)


def _run(
    command: Sequence[str], input: str, cwd: Path, env: Mapping[str, str], limits: Limits
) -> subprocess.CompletedProcess[str]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=dict(env),
        start_new_session=True,
    )
    with process:
        _limit(process.pid, limits)
        try:
            _, stderr = process.communicate(input, timeout=limits.wall)
        except subprocess.TimeoutExpired:
            process.kill()
            raise LimitExceeded(f"took longer than {limits.wall:g} s") from None
        except BaseException:
            process.kill()
            raise
    code = process.returncode
    if code == -signal.SIGKILL:
        code = -signal.SIGXCPU  # a program that does not heed the signal, as those in Go, is killed by the same limit
    if code < 0 or CRASHED.search(stderr[:4096]):
        raise LimitExceeded(explain(code, limits, stderr[:4096]))
    return subprocess.CompletedProcess(command, code, "", stderr)


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
