"""The run in a folder: who runs there, starting it in the background, ending it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

from rich.markup import escape

from infra.local_control_plane.processes import Process
from shared.kube.loading_rules import Kubeconfig

from .failures import Failure
from .output import out

ENDS_WITHIN = 60.0
_STATE = "up.json"


def running(directory: Path) -> dict[str, Any] | None:
    """The state of the run in `directory`, if its process lives: that very one, not another that got its pid."""
    try:
        state: dict[str, Any] = json.loads((directory / _STATE).read_text())
        return state if Process(state["pid"], state["started"]).alive() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def end(directory: Path) -> bool:
    """Ends the run in `directory`, its process too; False if there is none. Raises `Failure` if it does not end."""
    state = running(directory)
    if state is None:
        (directory / _STATE).unlink(missing_ok=True)  # of one that crashed
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
    state = running(directory)
    if state is not None:
        raise Failure(
            f"process {state['pid']} runs in {directory} already; `capi-functions down -d {directory}` ends it"
        )


def detach(directory: Path, releases: Path | None) -> None:
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    log = directory / "logs" / "up.log"
    arguments = [sys.executable, "-m", "infra.cli.start", "up", "--dir", str(directory)]
    if releases is not None:
        arguments += ["--releases", str(releases)]
    with fresh_log(log) as output:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    news = News(log)
    while (state := running(directory)) is None or state["pid"] != process.pid:
        ended = process.poll() is not None
        for line in [*news.lines(), *(news.rest() if ended else ())]:
            out.print(line, markup=False)
        if ended:
            raise Failure(f"it did not come up; the whole log is {log}")
        time.sleep(0.1)
    for name, value in state.items():
        if isinstance(value, str):
            out.print(f"  {name.replace('_', ' '):<13} {escape(value)}")
    note_other_cluster(directory / "management.kubeconfig")


def note_other_cluster(kubeconfig: Path) -> None:
    """Says so where $KUBECONFIG names another cluster than that of the run that has just come up."""
    listed = os.environ.get("KUBECONFIG")
    if listed and Path(listed).absolute() != kubeconfig.absolute():
        told = f"$KUBECONFIG names, {listed}; `--dir {kubeconfig.parent}` has them ask this run"
        out.print(f"[yellow]note:[/yellow] commands ask the cluster that {escape(told)}")


def fresh_log(log: Path) -> BinaryIO:
    """For a new run alone: the file of the one before, which may still write its last lines, is `<log>.previous`."""
    if log.exists():
        log.replace(log.with_name(log.name + ".previous"))
    return log.open("ab")


class News:
    """What a growing log has that was not asked for yet."""

    def __init__(self, log: Path) -> None:
        self._log, self._read, self._begun = log, 0, b""

    def lines(self) -> list[str]:
        """The complete ones."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        self._read += len(new)
        *complete, self._begun = (self._begun + new).split(b"\n")
        return [line.decode(errors="replace") for line in complete]

    def rest(self) -> list[str]:
        """What nobody ends any more."""
        begun, self._begun = self._begun, b""
        return [begun.decode(errors="replace")] if begun else []


def died(directory: Path) -> bool:
    """Whether the run in `directory` ended without `down` or Ctrl-C, which take its state away."""
    return (directory / _STATE).exists() and running(directory) is None


def run_of(kubeconfig: Kubeconfig) -> Path | None:
    """The folder of the living run that the context in use is of, however it was come by."""
    for file in kubeconfig.files:
        state = running(file.parent) or {}
        named = Path(str(state.get("kubeconfig", "")))
        if named.resolve() == file.resolve() and state.get("api_server") == kubeconfig.server:
            return file.parent
    return None


def settings_of(directory: Path) -> dict[str, str]:
    """The environment of the functions of the run in `directory`; what is set here already stays."""
    state = running(directory)
    settings = state.get("settings", {}) if state else {}
    return {name: str(value) for name, value in settings.items() if name not in os.environ}


def until_signal(seconds: float | None = None) -> None:
    """Waits for Ctrl-C or a request to end, at most `seconds`."""
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    done.wait(seconds)
