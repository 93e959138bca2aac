"""What takes long is done once: one process does it, the others wait, and a half of it is never taken for the whole."""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

Progress = Callable[[str], None]

REPORT_EVERY = 10.0  # seconds between signs of life


def cache_directory() -> Path:
    """`$CAPI_FUNCTIONS_CACHE`, or `capi-functions` in `$XDG_CACHE_HOME` or ~/.cache."""
    if own := os.environ.get("CAPI_FUNCTIONS_CACHE"):
        return Path(own).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "capi-functions"


@contextlib.contextmanager
def alone(lock: Path, doing: str, progress: Progress) -> Iterator[None]:
    """Hold `lock`, also against other processes, which have our patience however long it takes."""
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
                    next_report = now + REPORT_EVERY
                time.sleep(0.1)
        yield


@contextlib.contextmanager
def partial(target: Path) -> Iterator[Path]:
    """A name beside `target` for what is not complete yet, file or folder; nothing is left of it afterwards."""
    path = target.with_name(f".{target.name}.partial")
    _remove(path)  # of a run that was killed; `go build` does not replace what is not its own
    try:
        yield path
    finally:
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
