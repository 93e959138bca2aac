"""Reads the state of the run in a folder, starts a run in the background, and ends it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from infra.local_control_plane.processes import Process
from shared.kube.loading_rules import Kubeconfig

from .failure import Failure

ENDS_WITHIN = 60.0
DEFAULT_DIR = Path(".capi-functions")
_STATE = "up.json"


def running(directory: Path) -> dict[str, Any] | None:
    """Returns the state file of the run in `directory` if its process is alive, else None."""
    try:
        state: dict[str, Any] = json.loads((directory / _STATE).read_text())
        return state if Process(state["pid"], state["started"]).alive() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def addresses(state: dict[str, Any]) -> dict[str, str]:
    """Returns the kubeconfig, the addresses and the folder of the logs of a run."""
    found = {name: value for name, value in state.items() if isinstance(value, str)}
    logs = {"logs": str(Path(found["kubeconfig"]).with_name("logs"))} if "kubeconfig" in found else {}
    return {**found, **logs}


def end(directory: Path) -> bool:
    """Ends the run in `directory`, and waits for the end of its process. Returns False if there is none.

    Raises `Failure` if the process does not end within `ENDS_WITHIN` seconds.
    """
    state = running(directory)
    if state is None:
        (directory / _STATE).unlink(missing_ok=True)  # of a run that has crashed
        return False
    process = Process(state["pid"], state["started"])
    process.signal(signal.SIGTERM)
    deadline = time.monotonic() + ENDS_WITHIN
    while process.alive():
        if time.monotonic() > deadline:
            raise Failure(f"process {state['pid']} has not ended within {ENDS_WITHIN:g} s; see {directory}/logs")
        time.sleep(0.1)
    return True


def refuse_second(directory: Path) -> None:
    """Raises `Failure` if there is a run in `directory`."""
    state = running(directory)
    if state is not None:
        raise Failure(
            f"{directory} has a run already (process {state['pid']}); `capi-functions down -d {directory}` ends it"
        )


def detach(directory: Path, options: Sequence[str], progress: Callable[[str], None]) -> dict[str, Any]:
    """Runs `up` in the background, and returns its state once it is up. Raises `Failure` if it ends before.

    `progress` receives the lines of its log.

    Ctrl-C ends a run that is not up yet, because `down` does not find it.
    """
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    log = directory / "logs" / "up.log"
    arguments = [sys.executable, "-m", "infra.cli", "up", "--dir", str(directory), *options]
    with fresh_log(log) as output:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        return _started(process, directory, log, progress)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise


def _started(
    process: subprocess.Popen[bytes], directory: Path, log: Path, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Passes on the log of the run until it is up, and returns its state. Raises `Failure` if it ends before."""
    news = LogTail(log)
    while (state := running(directory)) is None or state["pid"] != process.pid:
        ended = process.poll() is not None
        for line in [*news.lines(), *(news.rest() if ended else ())]:
            progress(line)
        if ended:
            raise Failure(f"the run did not start; see its log {log}")
        time.sleep(0.1)
    return state


def other_cluster_note(kubeconfig: Path) -> str:
    """Returns a note if $KUBECONFIG does not name the file of the run that has just started; else an empty text."""
    listed = os.environ.get("KUBECONFIG")
    if listed and Path(listed).absolute() != kubeconfig.absolute():
        return f"commands use $KUBECONFIG ({listed}); with `--dir {kubeconfig.parent}` they use this run"
    return ""


@contextmanager
def own_log(log: Path) -> Iterator[Path]:
    """Keeps a log file for this process alone until the end of the block. Creates its folder.

    Raises `Failure` if another process keeps it. Raises `OSError` if the file cannot be written.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Failure(
                f"another `capi-functions run` writes to {log}: end that run, or name another folder with --logs"
            ) from error
        yield log


def fresh_log(log: Path) -> BinaryIO:
    """Opens a new log file. The former log becomes `<log>.previous`, to which the former run may still write."""
    if log.exists():
        log.replace(log.with_name(log.name + ".previous"))
    return log.open("ab")


class LogTail:
    """Reads a growing log, each line once."""

    def __init__(self, log: Path) -> None:
        self._log, self._read, self._incomplete = log, 0, b""

    def lines(self) -> list[str]:
        """Returns the new lines that are complete."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        self._read += len(new)
        *complete, self._incomplete = (self._incomplete + new).split(b"\n")
        return [line.decode(errors="replace") for line in complete]

    def rest(self) -> list[str]:
        """Returns the incomplete last line, if there is one, after the end of the writer."""
        rest, self._incomplete = self._incomplete, b""
        return [rest.decode(errors="replace")] if rest else []


def crashed(directory: Path) -> bool:
    """Returns whether the run in `directory` has crashed: `down` and Ctrl-C delete the state file."""
    return (directory / _STATE).exists() and running(directory) is None


def run_of(kubeconfig: Kubeconfig) -> Path | None:
    """Returns the folder of the run to which the present context belongs, None without such a run.

    A copy of the kubeconfig belongs to the run in the default folder if it has the address of that run's API server.
    """
    for file in kubeconfig.files:
        state = running(file.parent) or {}
        named = Path(str(state.get("kubeconfig", "")))
        if named.resolve() == file.resolve() and state.get("api_server") == kubeconfig.server:
            return file.parent
    default = running(DEFAULT_DIR) or {}
    return DEFAULT_DIR.absolute() if default and default.get("api_server") == kubeconfig.server else None


def settings_of(directory: Path) -> dict[str, str]:
    """Returns the environment variables that a run sets for its functions; none if there is no run."""
    state = running(directory)
    settings = state.get("settings", {}) if state else {}
    return {name: str(value) for name, value in settings.items()}


def token_for(url: str, directory: Path | None) -> Path | None:
    """Returns the file with the token of the run whose functions or ingress are at a URL, None for any other URL.

    The run is in `directory`, by default in the default folder.
    """
    state = running(directory or DEFAULT_DIR) or {}
    server = _server(url)
    is_of_run = server is not None and server in [_server(str(state.get(name))) for name in ("functions", "ingress")]
    return Path(state["token"]) if is_of_run and "token" in state else None


def _server(url: str) -> tuple[str, int] | None:
    """Returns host and port of a URL, None for a bad URL; `localhost` is the address that a run listens at."""
    from shared.network import origin

    try:
        _, host, port = origin(url)
    except ValueError:
        return None
    return "127.0.0.1" if host == "localhost" else host, port
