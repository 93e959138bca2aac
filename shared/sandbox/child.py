"""The worker process: executes calls, one after another, that it receives on the socket of file descriptor 0."""

from __future__ import annotations

import json
import os
import pickle
import resource
import socket
import struct
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from .confine import SYSTEM, Access, confine
from .limits import MIB, OUT_OF_MEMORY, SLACK, Limits

_LENGTH = struct.Struct("!Q")
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
_STATM = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC) if os.path.exists("/proc/self/statm") else -1


class _Memory:
    """Measures the memory of imported modules, so that the limit of a call excludes them.

    `base` is this memory in bytes, interpreter included.
    """

    def __init__(self) -> None:
        self.base = _private_bytes()
        self._modules: set[str] = set()

    @property
    def retained(self) -> int:
        """The bytes that earlier calls have not freed."""
        return _private_bytes() - self.base

    def load(self, module: str) -> Any:
        """Imports a module without a memory limit, and adds the memory that it takes to `base`."""
        if module in self._modules:
            return sys.modules[module]
        _limit(resource.RLIMIT_DATA, resource.RLIM_INFINITY)
        before = _private_bytes()
        loaded = import_module(module)
        self.base += _private_bytes() - before
        self._modules.add(module)
        return loaded


def main() -> None:
    """Executes calls until the socket is closed."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, MIB)
    confine(Access(read=[*SYSTEM, *_libraries()], list=[_ROOT]))
    memory = _Memory()
    with socket.socket(fileno=0) as connection:
        while (header := _receive(connection, _LENGTH.size)) is not None:
            request = _receive(connection, _LENGTH.unpack(header)[0])
            if request is None:
                return
            try:
                response = _execute(memory, *pickle.loads(request))  # noqa: S301 - the parent process sent it
            except MemoryError:
                os._exit(OUT_OF_MEMORY)
            _limit(resource.RLIMIT_CPU, resource.RLIM_INFINITY)
            connection.sendall(_LENGTH.pack(len(response)) + response)


def _execute(memory: _Memory, function: str, arguments: tuple[Any, ...], limits: Limits) -> bytes:
    """Calls the function within the limits and returns its result, or its exception, as JSON."""
    module, _, name = function.partition(":")
    callee = getattr(memory.load(module), name)
    if memory.base:
        _limit(resource.RLIMIT_DATA, memory.base + (limits.memory + SLACK) * MIB)
    _limit(resource.RLIMIT_CPU, int(time.process_time()) + 1 + limits.cpu)
    response: dict[str, Any]
    try:
        response = {"result": callee(*arguments)}
    except MemoryError:
        raise
    except Exception as error:
        response = {"error": [type(error).__name__, str(error)]}
    response["retained"] = memory.retained
    return json.dumps(response, separators=(",", ":")).encode()


def _libraries() -> Iterator[str]:
    """Yields the folders of Python's code; for a folder with other content, its packages."""
    own = (sys.prefix, sys.base_prefix)
    yield from own
    for entry in dict.fromkeys(sys.path):
        if entry.startswith(tuple(f"{prefix}/" for prefix in own)):
            continue
        names = os.listdir(entry) if os.path.isdir(entry) else []
        if not names or any(name.endswith(".dist-info") for name in names):
            yield entry
        else:
            folders = (os.path.join(entry, name) for name in names)
            yield from (folder for folder in folders if os.path.exists(os.path.join(folder, "__init__.py")))


def _limit(which: int, value: int) -> None:
    """Sets the soft limit and leaves the hard limit, so that the soft limit can be raised again."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY and (value == resource.RLIM_INFINITY or value > hard):
        value = hard
    resource.setrlimit(which, (value, hard))


def _private_bytes() -> int:
    """Returns the bytes of private memory of this process; 0 without /proc, which means no memory limit."""
    return int(os.pread(_STATM, 256, 0).split()[5]) * resource.getpagesize() if _STATM >= 0 else 0


def _receive(connection: socket.socket, size: int) -> bytes | None:
    """Receives exactly `size` bytes; returns None once the peer has closed the connection."""
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(min(size - len(data), 1 << 20))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


if __name__ == "__main__":
    main()
