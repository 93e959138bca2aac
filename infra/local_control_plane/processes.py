"""Identifies processes by pid *and* start time, because the kernel reuses pids (Linux), and spawns servers."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Process:
    """A process: its pid, and its start in clock ticks since boot (field 22 of /proc/PID/stat)."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """Returns the process that has `pid` now, None if there is none or it is a zombie."""
        try:
            # The name in parentheses may contain spaces and parentheses.
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        # The first thread may be a zombie while others still hold the process's files and ports.
        ended = fields[0] in "ZX" and int(fields[17]) <= 1
        return None if ended else cls(pid, int(fields[19]))

    def alive(self) -> bool:
        """Returns whether this very process still runs."""
        return Process.of(self.pid) == self

    def signal(self, number: signal.Signals) -> None:
        """Sends the signal `number`. Does nothing if the process has ended."""
        descriptor = watch(self.pid)
        try:
            # Checked after the pidfd was opened, because from now on the descriptor cannot refer to another process.
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
    """Returns a descriptor that becomes readable at the end of `pid`, None where the kernel has no pidfd."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def command_lines() -> Iterator[str]:
    """Yields the command lines of all processes, of other users too."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            yield (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """Returns the `preexec_fn` of a child process to which the kernel sends `number` when the caller ends.

    Start the child from the main thread, because the kernel takes the end of the spawning *thread* for the end of the
    parent.
    """
    parent = os.getpid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # looked up before the fork: after it, little is safe to call

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it ended before the kernel was asked
            os._exit(1)

    return prepare


def spawn(
    arguments: Sequence[str],
    *,
    directory: Path,
    log: Path,
    environment: Mapping[str, str],
    executable: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Runs a server in its own process group. The kernel kills the server at the end of the caller.

    The first of `arguments` is the program, or only its name if there is an `executable`.

    Call it from the main thread, see `die_with_parent`. The log of the former run is kept as `<log>.previous`.
    Raises OSError.
    """
    if log.exists():
        os.replace(log, log.with_name(log.name + ".previous"))
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as output:
        return subprocess.Popen(
            arguments,
            executable=executable,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=die_with_parent(),
        )


def end(leader: subprocess.Popen[Any], number: signal.Signals = signal.SIGTERM, patience: float = 10.0) -> None:
    """Signals the process group of a child process, and waits for the child. Kills the group after `patience` s."""
    for each in (number, signal.SIGKILL):
        if leader.poll() is None:
            os.killpg(leader.pid, each)
        try:
            leader.wait(patience)
            return
        except subprocess.TimeoutExpired:
            continue
