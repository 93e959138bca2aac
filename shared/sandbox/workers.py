"""The pool of worker processes: started on demand, kept warm, killed when they exceed a limit.

A start takes as long as the rendering of thirty small charts, and a worker needs 40 MiB. So a call waits for the worker
in use, and starts a second worker only if the first does not become free soon.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import pickle
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Condition
from typing import Any

from .confine import missing
from .limits import MIB, SLACK, LimitExceeded, Limits, explain
from .scratch import remove_abandoned
from .slots import slot

log = logging.getLogger("capi-functions")

MAX_RESULT = 32 * MIB
"""The limit of one result, in bytes."""

MAX_WORKER_WAIT = 2.0
"""Seconds from the start of a call for which other calls wait for its worker before they start another."""

_GO = {"GOMAXPROCS": "2", "GOGC": "50"}
"""The number of processors of the chart engine, and the growth of its heap, in percent, before a collection."""
_LENGTH = struct.Struct("!Q")
_ROOT = str(Path(__file__).resolve().parents[2])


def call(function: str, *arguments: Any, limits: Limits, raises: Iterable[type[Exception]] = ()) -> Any:
    """Calls `function` (`package.module:name`) in a worker and returns its result, which must be JSON.

    An exception of a type in `raises` is raised here with the same message; any other exception becomes a
    `RuntimeError`. Raises `LimitExceeded`, or `Busy` if no slot becomes free.
    """
    with _POOL.worker() as worker:
        response = worker.request(pickle.dumps((function, arguments, limits)), limits)
    if "error" not in response:
        return response["result"]
    name, message = response["error"]
    types = {type_.__name__: type_ for type_ in raises}
    if name in types:
        raise types[name](message)
    raise RuntimeError(f"{function}: {name}: {message}")


class _Worker:
    """One worker process and the socket to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._errors = os.memfd_create("stderr") if hasattr(os, "memfd_create") else None
        path = [_ROOT, *(os.path.abspath(entry) for entry in sys.path if entry)]
        with theirs, ExitStack() as unless_started:
            unless_started.callback(ours.close)
            if self._errors is not None:
                unless_started.callback(os.close, self._errors)
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-P", "-B", "-m", "shared.sandbox.child"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL if self._errors is None else self._errors,
                cwd="/",
                env={"PYTHONPATH": os.pathsep.join(dict.fromkeys(path)), **_GO, "PATH": os.defpath},
                start_new_session=True,  # so that Ctrl-C in a terminal only reaches this process
            )
            unless_started.pop_all()
        self._socket = ours
        self.reusable = True
        """Whether it can execute more calls, because earlier calls have left at most `SLACK` allocated."""

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def request(self, request: bytes, limits: Limits) -> dict[str, Any]:
        """Sends a pickled request and returns the response. Raises `LimitExceeded` after the end of the process."""
        deadline = time.monotonic() + limits.wall
        try:
            self._socket.settimeout(limits.wall)
            self._socket.sendall(_LENGTH.pack(len(request)) + request)
            [length] = _LENGTH.unpack(self._receive(_LENGTH.size, deadline))
            if length > MAX_RESULT:
                self.end()
                raise LimitExceeded(f"returned more than {MAX_RESULT // MIB} MiB")
            response: dict[str, Any] = json.loads(self._receive(length, deadline))
            self.reusable = response["retained"] <= SLACK * MIB
            return response
        except TimeoutError:
            self.end()
            raise LimitExceeded(f"took longer than {limits.wall:g} s") from None
        except (EOFError, ConnectionError):
            stderr = self._stderr()
            self.end()
            raise LimitExceeded(explain(self._process.returncode, limits, stderr)) from None

    def _receive(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            chunk = self._socket.recv(min(size - len(data), 1 << 20))
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)

    def _stderr(self) -> str:
        """Waits for the end of the process and returns the beginning of its standard error."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        return os.pread(self._errors, 4096, 0).decode(errors="replace") if self._errors is not None else ""

    def end(self) -> None:
        """Kills the process if it runs, and closes its files."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._socket.close()
        if self._errors is not None:
            os.close(self._errors)
            self._errors = None


class _Pool:
    """The workers of this process: a permanent worker, and further workers while a long call occupies it."""

    def __init__(self) -> None:
        self._free: list[_Worker] = []
        self._started = False
        self._calls: list[float] = []
        """The start of each call in progress, in seconds of the monotonic clock."""
        self._lock = Condition()

    @contextmanager
    def worker(self) -> Iterator[_Worker]:
        """Provides a worker for one call. It is killed if the call raises. Its response may be partly unread."""
        with slot():
            began, worker = self._acquire()
            try:
                yield worker
            except BaseException:
                worker.reusable = False
                raise
            finally:
                self._release(began, worker)

    def _acquire(self) -> tuple[float, _Worker]:
        with self._lock:
            while not self._free and self._calls and (left := self._calls[-1] + MAX_WORKER_WAIT - time.monotonic()) > 0:
                self._lock.wait(left)
            free = self._free.pop() if self._free else None
            began = time.monotonic()
            self._calls.append(began)
        try:
            if free is not None and free.alive:
                return began, free
            if free is not None:
                free.end()
            self._prepare()
            return began, _Worker()
        except BaseException:
            self._release(began, None)
            raise

    def _prepare(self) -> None:
        """Prepares the first worker of this process, and logs missing features of the kernel."""
        if self._started:
            return
        self._started = True
        remove_abandoned()
        for sentence in missing():
            log.warning("the sandbox is weaker than it could be: %s", sentence)

    def _release(self, began: float, worker: _Worker | None) -> None:
        """Keeps the worker for the next call, or ends it; None if the worker did not start."""
        with self._lock:
            self._calls.remove(began)
            if worker is not None and worker.reusable and not self._free:
                self._free.append(worker)
                worker = None
            self._lock.notify()
        if worker is not None:
            worker.end()

    def close(self) -> None:
        with self._lock:
            free, self._free = self._free, []
        for worker in free:
            worker.end()


_POOL = _Pool()


def _replace_pool() -> None:
    """Gives a forked process a pool of its own."""
    global _POOL
    _POOL = _Pool()


os.register_at_fork(after_in_child=_replace_pool)
atexit.register(lambda: _POOL.close())
