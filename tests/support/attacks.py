"""What hostile code in a worker process tries. Each function returns what it got; a refusal raises `OSError`."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_RLIMIT_CORE = 4
_PTRACE_SEIZE = 0x4206


def attempt(name: str, argument: str) -> str:
    """Runs an attack, in a worker; returns what it got, or the name of the error that refused it."""
    try:
        return f"got {_ATTACKS[name](argument)!r}"
    except OSError as error:
        return f"refused: {os.strerror(error.errno or 0)}"


def _read(path: str) -> str:
    return Path(path).read_text()


def _through_root(path: str) -> str:
    """Reads by way of the magic links of /proc."""
    return Path(f"/proc/self/root{path}").read_text()


def _environment_of_parent(_: str) -> bytes:
    return Path(f"/proc/{os.getppid()}/environ").read_bytes()


def _memory_of_parent(_: str) -> bytes:
    with open(f"/proc/{os.getppid()}/mem", "rb"):
        return b"an open file"


def _vm_of_parent(_: str) -> int:
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    return _checked(_libc.process_vm_readv(os.getppid(), local, 1, remote, 1, 0))


def _trace_parent(_: str) -> int:
    return _checked(_libc.ptrace(_PTRACE_SEIZE, os.getppid(), None, None))


def _files_of_parent(_: str) -> list[str]:
    return [os.readlink(f"/proc/{os.getppid()}/fd/{name}") for name in os.listdir(f"/proc/{os.getppid()}/fd")]


def _connect(port: str) -> bytes:
    with socket.create_connection(("127.0.0.1", int(port)), 5) as connection:
        return connection.recv(1)


def _send_datagram(port: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return sender.sendto(b"x", ("127.0.0.1", int(port)))


def _listen(_: str) -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _unix_socket(_: str) -> str:
    with socket.socket(socket.AF_UNIX) as sender:
        return repr(sender)


def _kill_parent(_: str) -> str:
    os.kill(os.getppid(), 0)  # checks the right to signal, and no more
    return "the right to signal"


def _kill_all(_: str) -> str:
    os.kill(-1, 0)
    return "the right to signal"


def _lower_limit_of_parent(_: str) -> str:
    limits = (ctypes.c_uint64 * 2)(0, 0)
    _checked(_libc.prlimit(os.getppid(), _RLIMIT_CORE, limits, None))
    return "a limit"


def _execute(program: str) -> int:
    os.execv(program, [program, "-c", "exit 3"])


def _spawn(program: str) -> int:
    return subprocess.run([program, "-c", "exit 3"], check=False).returncode


def _fork(_: str) -> int:
    child = os.fork()
    if child == 0:
        os._exit(0)
    return child


def _write(path: str) -> int:
    return Path(path).write_text("x")


def _remove(path: str) -> str:
    os.unlink(path)
    return path


def _move(path: str) -> str:
    os.rename(path, f"{path}.moved")
    return path


def _chmod(path: str) -> str:
    os.chmod(path, 0o777)
    return path


def _list(path: str) -> list[str]:
    return os.listdir(path)


def _new_namespace(_: str) -> str:
    _checked(_libc.unshare(0x10000000))
    return "a user namespace"


def _io_uring(_: str) -> int:
    return _checked(_libc.syscall(425, 1, ctypes.create_string_buffer(120)))


def _unknown_call(_: str) -> int:
    """A system call that is newer than the filter: `listmount`, on every architecture."""
    return _checked(_libc.syscall(458, None, None, 0, 0))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


_ATTACKS: Mapping[str, Callable[[str], object]] = {
    name.removeprefix("_"): value
    for name, value in list(globals().items())
    if name.startswith("_") and callable(value) and getattr(value, "__module__", "") == __name__ and name != "_checked"
}
