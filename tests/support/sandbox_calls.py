"""Functions that tests of the sandbox call in a worker process."""

from __future__ import annotations

import os
import time
from typing import Any


def echo(value: Any) -> Any:
    return value


def refuse(message: str) -> None:
    raise ValueError(message)


def pid() -> int:
    return os.getpid()


def environment() -> dict[str, str]:
    return dict(os.environ)


def spin() -> None:
    while True:
        pass


def busy(seconds: float) -> int:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return os.getpid()


def doze() -> None:
    time.sleep(3600)


def grow() -> None:
    kept = []
    while True:
        kept.append(bytearray(2**20))


_LEFT: list[bytearray] = []


def leave(mib: int) -> int:
    """Allocates so much memory and keeps it."""
    _LEFT.append(bytearray(mib * 2**20))
    return os.getpid()


def crash() -> None:
    os.abort()
