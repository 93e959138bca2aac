"""Processes named by pid *and* start time, because a pid alone may be someone else's by now (Linux)."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Process:
    """A process: `pid`, and `started` in clock ticks since boot (field 22 of /proc/PID/stat)."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """The process that has `pid` now; None if there is none or only a zombie is left of it."""
        try:
            # The name in parentheses may itself hold spaces and parentheses.
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        # The first thread may be a zombie while others still hold the process's files and ports.
        ended = fields[0] in "ZX" and int(fields[17]) <= 1
        return None if ended else cls(pid, int(fields[19]))

    def alive(self) -> bool:
        return Process.of(self.pid) == self

    def signal(self, number: signal.Signals) -> None:
        """Send `number`; nothing happens if the process has ended."""
        descriptor = watch(self.pid)
        try:
            # Looked at after the pidfd was opened: from here on it cannot become another process.
            if not self.alive():
                return
            if descriptor is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return
        finally:
            if descriptor is not None:
                os.close(descriptor)


def watch(pid: int) -> int | None:
    """A descriptor that polls readable once `pid` has ended; None where the kernel has no such thing."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def spawn(
    arguments: Sequence[str], *, directory: Path, log: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Run a server in a process group of its own that the kernel kills when the caller ends, however it ends.

    Call it from the main thread: the kernel takes the end of the spawning *thread* for the end of the parent.
    The log of the run before is kept as `<log>.previous`. Raises OSError.
    """
    parent = os.getpid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # looked up before the fork, where little is safe to do

    def die_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    if log.exists():
        os.replace(log, log.with_name(log.name + ".previous"))
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as output:
        return subprocess.Popen(
            arguments,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=die_with_parent,
        )
