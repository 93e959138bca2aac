"""Copies the logs of an instance's servers to the standard error, while a control plane runs."""

import os
import sys
import threading
from pathlib import Path

from infra.local_control_plane.layout import Layout

_NAMES = ("etcd", "kube-apiserver")
_INTERVAL = 0.1  # seconds
_CHUNK = 1 << 16


class AttachedOutput:
    """Copies the logs of the servers of the instance in `directory` between `start` and `stop`."""

    def __init__(self, directory: Path) -> None:
        layout = Layout(directory.absolute())
        self._logs = [layout.log(name) for name in _NAMES]
        self._read: dict[Path, tuple[int, int]] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts copying. Does nothing if it already copies."""
        if self._thread is None:
            self._read = {log: _identity(log) for log in self._logs}
            self._ended.clear()
            self._thread = threading.Thread(target=self._run, name="attached output", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Copies the remaining lines, and ends."""
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._ended.wait(_INTERVAL):
            self._copy()
        self._copy()

    def _copy(self) -> None:
        for log in self._logs:
            try:
                with log.open("rb") as file:
                    inode, position = self._read[log]
                    now = os.fstat(file.fileno())
                    # Each start has a log of its own.
                    file.seek(position if now.st_ino == inode and now.st_size >= position else 0)
                    while chunk := file.read(_CHUNK):
                        sys.stderr.write(chunk.decode(errors="replace"))
                    self._read[log] = now.st_ino, file.tell()
            except OSError:
                continue  # it does not exist yet


def _identity(log: Path) -> tuple[int, int]:
    try:
        now = log.stat()
    except OSError:
        return 0, 0
    return now.st_ino, now.st_size
