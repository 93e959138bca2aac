"""How much untrusted work runs at a time: its memory limits add up."""

from __future__ import annotations

import os
from threading import BoundedSemaphore

from ..kube.errors import Unavailable

MOST_AT_ONCE = 2
PATIENCE = 30.0
"""Seconds that a call waits for its turn."""


class Busy(Unavailable):
    """Others are at work: the same call may find its turn later."""


class Gate:
    """A context manager. Raises `Busy` where others are at work for too long."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self._free = BoundedSemaphore(MOST_AT_ONCE)

    def __enter__(self) -> None:
        if not self._free.acquire(timeout=PATIENCE):
            message = f"other charts and expressions have been at work for {PATIENCE:g} s"
            raise Busy(message, retry_after=5.0)

    def __exit__(self, *_: object) -> None:
        self._free.release()


GATE = Gate()
os.register_at_fork(after_in_child=GATE.renew)
