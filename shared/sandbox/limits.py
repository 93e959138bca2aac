"""What one piece of untrusted work may use."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """`cpu` and `wall` in seconds.

    `memory` is what the work may have in any case, in MiB beyond what its libraries take. It gets up to `SLACK` more
    in a worker in which earlier work has left nothing behind.
    """

    cpu: int
    wall: float
    memory: int


SLACK = 64
"""MiB by which earlier work may have made a worker larger. One that is larger still, as the heap of a library can be
that never shrinks, takes no more work: what is left to it would depend on what came before.
"""


class LimitExceeded(Exception):
    """The work was ended; the message is a clause that begins with a verb: `used more than 5 s of CPU time`."""


def explain(returncode: int, limits: Limits, stderr: str = "") -> str:
    """Says why a process that was limited ended, as a clause for `LimitExceeded`."""
    if returncode == -signal.SIGXCPU:
        return f"used more than {limits.cpu} s of CPU time"
    if returncode == -signal.SIGKILL:  # by the CPU limit where a program does not heed the signal before, as in Go
        return f"used more than {limits.cpu} s of CPU time, or was killed since there was no memory left for it"
    if returncode == OUT_OF_MEMORY or _NO_MEMORY.search(stderr):
        return f"needed more than {limits.memory} MiB of memory"
    return f"crashed its process (exit status {returncode}), perhaps for want of memory ({limits.memory} MiB)"


OUT_OF_MEMORY = 77
"""Exit status of a worker whose Python code could not allocate memory."""

_NO_MEMORY = re.compile(r"out of memory|cannot allocate memory|malloc failed|pthread_create failed|memory allocation")
"""What Go and Rust say of it at their end, and the C library between them."""

CRASHED = re.compile(r"^(fatal error|runtime(/cgo)?): ", re.MULTILINE)
"""How Go's runtime begins what it says of its own end."""
