"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")

HANGS = 300.0
"""Seconds after which a test is taken to hang: far more than a busy machine needs, since speed is not tested."""


def until(
    reached: Callable[[], _T | None],
    what: object = "it",
    *,
    within: float = HANGS,
    pause: float = 0.05,
    between: Callable[[], object] = lambda: None,
    told: Callable[[], object] = lambda: "",
) -> _T:
    """What `reached` returns once that is true. `between` is done in between; `told` is for when it never is."""
    deadline = time.monotonic() + within
    while not (found := reached()):
        assert time.monotonic() < deadline, f"not within {within:g} s: {what}\n{told()}".rstrip()
        between()
        time.sleep(pause)
    return found


def logged(log: Path) -> Callable[[], str]:
    """The end of a log, to be `told`."""
    return lambda: log.read_text()[-3000:]
