"""Scratch folders of programs, removed after use, or by the next process if this process is killed.

A folder in use is locked (`flock`), and the kernel releases the locks of any process that ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .confine import NOBODY

_PREFIX = "capi-functions-helm-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Provides an empty folder, which only this user can read."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with _locked(folder) as is_ours:
            if not is_ours:
                continue  # another process has taken it for an abandoned folder
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


def remove_abandoned() -> None:
    """Removes the scratch folders of processes that have ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with _locked(folder) as is_ours:
            if is_ours:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Locks a folder of this user, or of the programs' user; provides False if that is impossible."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        yield _lock(descriptor, folder)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> bool:
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        user, opened = os.geteuid(), os.fstat(descriptor)
        owners = (user, NOBODY) if user == 0 else (user,)
        return opened.st_uid in owners and opened.st_ino == os.stat(folder, follow_symlinks=False).st_ino
    return False
