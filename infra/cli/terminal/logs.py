"""Prints the log files of a run or a control plane, and the logs of pods."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from infra.operations.failure import Failure
from infra.operations.log_lines import Filter, PodLogs
from shared.runtime.logs import one_line

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C.")]


_ALL = Filter()


def print_log(folder: Path, name: str, *, follow: bool, selected: Filter = _ALL) -> None:
    """Prints the selected lines of the file `<name>.log` of a folder; with `follow` also new lines, until Ctrl-C.

    Raises `Failure` with the names of the existing logs.
    """
    file = folder / f"{name}.log"
    if not file.is_file() or file.parent.resolve() != file.resolve().parent:
        there = ", ".join(sorted(path.stem for path in folder.glob("*.log"))) or "none"
        raise Failure(f"{folder} has no log of {name}; there are: {there}")
    with file.open(errors="replace") as log:
        while True:
            for line in log:
                if selected.select(line):
                    sys.stdout.write(line)
            sys.stdout.flush()
            if not follow:
                return
            time.sleep(0.2)


def print_pod_logs(logs: PodLogs, *, follow: bool, selected: Filter) -> None:
    """Prints the selected lines of the logs of pods; with `follow` also new lines, until Ctrl-C."""
    while True:
        for line in logs.lines():
            if selected.select(line):
                sys.stdout.write(f"{one_line(line)}\n")
        sys.stdout.flush()
        if not follow:
            return
        time.sleep(2.0)
