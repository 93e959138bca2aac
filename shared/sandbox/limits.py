"""The limits of one untrusted call, and the texts that explain which one it exceeded."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Limits of one call: `cpu` and `wall` time in seconds, and `memory` in MiB, without the loaded libraries.

    The memory limit is exact up to `SLACK`, because in a worker that has not grown yet a call may use that much more.
    """

    cpu: int
    wall: float
    memory: int


SLACK = 64
"""MiB by which a worker may grow: the heaps of some libraries never shrink.

A worker that has grown by more is replaced, because its next call would have less memory than the limit.
"""


class LimitExceeded(Exception):
    """The call exceeded a limit and was ended; the message is a predicate, such as `used more than 5 s of CPU time`."""


def explain(returncode: int, limits: Limits, stderr: str = "") -> str:
    """Returns why a limited process ended, as the message of a `LimitExceeded`.

    `returncode` is as in subprocess, negative for a signal; `stderr` is the beginning of its standard error.
    """
    if returncode == -signal.SIGXCPU:
        return f"used more than {limits.cpu} s of CPU time"
    if returncode == -signal.SIGKILL:  # the CPU limit also kills a program that ignores SIGXCPU, such as one in Go
        return f"used more than {limits.cpu} s of CPU time, or was killed because the system had no memory left"
    if returncode == OUT_OF_MEMORY or _NO_MEMORY.search(stderr):
        return f"needed more than {limits.memory} MiB of memory"
    return f"crashed its process (exit status {returncode}), perhaps for lack of memory (limit {limits.memory} MiB)"


OUT_OF_MEMORY = 77
"""Exit status of a worker whose Python code could not allocate memory."""

_NO_MEMORY = re.compile(r"out of memory|cannot allocate memory|malloc failed|pthread_create failed|memory allocation")
"""The messages of Go, Rust and the C library about exhausted memory."""

CRASHED = re.compile(r"^(fatal error|runtime(/cgo)?): ", re.MULTILINE)
"""The beginning of a crash report of Go's runtime."""
