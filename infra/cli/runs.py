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

from infra.control_plane.processes import Process

from .failures import Failure
from .output import out

ENDS_WITHIN = 60.0


def running(directory: Path) -> dict[str, Any] | None:
    """The state of the run in `directory`, if its process lives: that very one, not another that got its pid."""
    try:
        state: dict[str, Any] = json.loads((directory / "up.json").read_text())
        return state if Process(state["pid"], state["started"]).alive() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def end(directory: Path) -> bool:
    """Ends the run in `directory`, its process too; False if there is none. Raises `Failure` if it does not end."""
    state = running(directory)
    if state is None:
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
    arguments = [sys.executable, "-m", "infra.cli.main", "up", "--dir", str(directory)]
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


def kubeconfig_of(directory: Path, given: Path | None) -> Path:
    """`given`, else that of the run in `directory`, else $KUBECONFIG, which may list several. Raises `Failure`."""
    if given is not None:
        if not given.is_file():
            raise Failure(f"--kubeconfig: there is no {given}")
        return given
    of_run = directory / "management.kubeconfig"
    if of_run.is_file():
        # Not on to another cluster because the run that was meant has ended.
        if running(directory) is None:
            start = f"start it with `capi-functions up -d {directory}`"
            raise Failure(f"nothing runs in {directory}: {start}, or name a cluster with --kubeconfig")
        return of_run
    listed = os.environ.get("KUBECONFIG", "")
    if not any(Path(path).is_file() for path in listed.split(os.pathsep)):
        absent = f"$KUBECONFIG: there is no {listed}" if listed else f"there is no {of_run}"
        way = "start a run with `capi-functions up`, or name a cluster with --kubeconfig or $KUBECONFIG"
        raise Failure(f"{absent}; {way}")
    return Path(listed)


def is_of_run(kubeconfig: Path) -> bool:
    """Whether it is that of a run that lives, however it was come by."""
    state = running(kubeconfig.parent)
    return state is not None and state.get("kubeconfig") == str(kubeconfig.absolute())


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
