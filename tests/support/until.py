"""Waits for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")

HANGS = 300.0
"""Seconds after which a test counts as hanging: far more than a busy machine needs, since speed is not tested."""


def until(
    reached: Callable[[], _T | None],
    what: object = "it",
    *,
    within: float = HANGS,
    pause: float | None = None,
    between: Callable[[], object] = lambda: None,
    details: Callable[[], object] = lambda: "",
) -> _T:
    """Calls `reached` until it returns something true, and returns that.

    Args:
        reached: The condition.
        what: What is waited for, for the message of a failure.
        within: Seconds until the test fails.
        pause: Seconds between calls. Default: a twentieth of the time waited, since four tests that ask all the time
            would keep a core busy.
        between: Called between calls of `reached`.
        details: Returns more text for the message of a failure.
    """
    began = time.monotonic()
    while not (found := reached()):
        waited = time.monotonic() - began
        assert waited < within, f"not within {within:g} s: {what}\n{details()}".rstrip()
        between()
        time.sleep(min(max(0.02, waited / 20), 0.25) if pause is None else pause)
    return found


def logged(log: Path) -> Callable[[], str]:
    """Returns a function that reads the end of a log, for `details`."""
    return lambda: log.read_text()[-3000:]
