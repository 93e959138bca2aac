"""Prints the log files of a run or a control plane."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from infra.operations.failure import Failure

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C.")]


def print_log(folder: Path, name: str, *, follow: bool) -> None:
    """Prints the file `<name>.log` of a folder; with `follow` also its new lines, until Ctrl-C.

    Raises `Failure` with the names of the existing logs.
    """
    file = folder / f"{name}.log"
    if not file.is_file() or file.parent.resolve() != file.resolve().parent:
        there = ", ".join(sorted(path.stem for path in folder.glob("*.log"))) or "none"
        raise Failure(f"{folder} has no log of {name}; there are: {there}")
    with file.open(errors="replace") as log:
        while True:
            for line in log:
                sys.stdout.write(line)
            sys.stdout.flush()
            if not follow:
                return
            time.sleep(0.2)
