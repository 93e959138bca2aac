"""The cache of downloads and builds: one process fills it, others wait, and incomplete files are never visible."""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

Progress = Callable[[str], None]

REPORT_INTERVAL = 10.0  # seconds between lines of progress


def cache_directory() -> Path:
    """Returns `$CAPI_FUNCTIONS_CACHE`, else `capi-functions` in `$XDG_CACHE_HOME` or ~/.cache."""
    if own := os.environ.get("CAPI_FUNCTIONS_CACHE"):
        return Path(own).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "capi-functions"


@contextlib.contextmanager
def locked(lock: Path, doing: str, progress: Progress, wait: Callable[[float], object] = time.sleep) -> Iterator[None]:
    """Holds an exclusive lock on the file `lock` during the block, against other processes as well.

    Args:
        lock: The path of the lock file.
        doing: The work of the lock's holder, for the message "waiting for another run that <doing>".
        progress: Receives that message every 10 seconds while this process waits; the wait has no limit.
        wait: Waits some seconds, or raises to end the wait.
    """
    with lock.open("ab") as file:
        waiting_since = time.monotonic()
        next_report = waiting_since
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                now = time.monotonic()
                if now >= next_report:
                    progress(f"waiting for another run that {doing} ({now - waiting_since:.0f} s)")
                    next_report = now + REPORT_INTERVAL
                wait(0.1)
        yield


@contextlib.contextmanager
def partial(target: Path) -> Iterator[Path]:
    """Yields a path beside `target` for an incomplete file or folder, and deletes its remains after the block."""
    path = target.with_name(f".{target.name}.partial")
    _remove(path)  # a killed run may have left it, and `go build` refuses to overwrite a file that it did not write
    try:
        yield path
    finally:
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
