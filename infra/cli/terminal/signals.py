"""Waits for the signals that end a command."""

from __future__ import annotations

import signal
import threading


def until_signal(seconds: float | None = None) -> None:
    """Waits for SIGINT (Ctrl-C) or SIGTERM, at most `seconds`."""
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    done.wait(seconds)
