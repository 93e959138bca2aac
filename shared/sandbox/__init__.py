"""Runs untrusted work in a process that can be killed: a worker with limits on CPU time, wall time and memory.

Template engines and expression libraries cannot be interrupted, and some hold the interpreter lock while they run. So
they run in a worker process that is started on first use and kept warm. A worker that exceeds a limit is killed and
replaced; its caller gets `LimitExceeded`.

A worker inherits none of this process's environment, and has neither its files nor the network (`confine`). It ends
when this process ends, because its socket is closed then, and a busy worker ends at its CPU limit at the latest.
"""

from __future__ import annotations

from .limits import LimitExceeded, Limits
from .program import run
from .scratch import scratch_folder
from .slots import Busy
from .workers import call

__all__ = ["Busy", "LimitExceeded", "Limits", "call", "run", "scratch_folder"]
