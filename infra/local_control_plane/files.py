"""Writes files atomically and readable by the user alone, and reads the end of logs."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

_GOROUTINE = re.compile(r"goroutine \d+ .*:")
_TRACE = re.compile(r"|\t.*|goroutine \d+ .*|created by .*|[^\s:(]+\(.*\)")


def write(path: Path, data: bytes | str) -> None:
    """Replaces the content of `path` atomically, with mode 0600. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def tail(path: Path, lines: int = 25, most: int = 16_384) -> str:
    """Returns the last `lines` lines of a log within its last `most` bytes; "" if there is no such file.

    The default is 25 lines, because etcd writes 20 lines of usage after an error. Leaves out Go's stack traces at the
    end, because the error precedes them.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            return "\n".join(_without_trace(file.read().decode(errors="replace").splitlines())[-lines:])
    except OSError:
        return ""


def _without_trace(log: Sequence[str]) -> Sequence[str]:
    """Returns the lines before the stack traces that a log ends with."""
    for number, line in enumerate(log):
        if _GOROUTINE.fullmatch(line) and all(map(_TRACE.fullmatch, log[number:])):
            return log[:number]
    return log
