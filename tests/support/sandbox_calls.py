"""Functions that tests of the sandbox call in a worker process."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any


def echo(value: Any) -> Any:
    return value


def refuse(message: str) -> None:
    raise ValueError(message)


def pid() -> int:
    return os.getpid()


def unchanged_kib(file: str) -> int:
    """Returns the KiB of a mapped file that are in memory as they are in the file."""
    found, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, value = line.split()[:2]
        if "-" in name:
            counts = file in line
        elif counts and name in ("Rss:", "Anonymous:"):
            found += int(value) if name == "Rss:" else -int(value)
    return found


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
