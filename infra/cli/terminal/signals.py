"""Waits for the signals that end a command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable


def until_signal(seconds: float | None = None, *, ready: Callable[[], None] = lambda: None) -> None:
    """Waits for SIGINT (Ctrl-C) or SIGTERM, at most `seconds`. Calls `ready` once a signal ends the wait."""
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    ready()
    done.wait(seconds)
