"""Runs untrusted work where it can be ended: in a worker process with limits on CPU time, wall time and memory.

Template engines and expression libraries cannot be interrupted, and some hold the interpreter lock while they work. So
they run in a child process that is started at first need and kept warm. A worker that exceeds a limit is killed and
replaced; its caller gets `LimitExceeded`.

A worker sees none of this process's environment. It ends with this process: its end of the socket is then closed, and
while it is busy its CPU limit holds.
"""

from __future__ import annotations

from .gate import Busy
from .limits import LimitExceeded, Limits
from .program import run
from .workers import call

__all__ = ["Busy", "LimitExceeded", "Limits", "call", "run"]
