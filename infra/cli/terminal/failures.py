"""Reports expected failures in one line instead of a stack trace."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.markup import escape

from infra.operations.failure import Failure
from infra.operations.waiting import WaitTimeout

from .output import err


@contextmanager
def report_failures(*expected: type[Exception]) -> Iterator[None]:
    """Prints an expected failure of the block as one line on stderr, and exits with code 1; with 130 for Ctrl-C.

    The exceptions listed below are always expected: exceptions of the command line, of connections and of local runs,
    and `TimeoutError`, which names the awaited state. `expected` adds further types.
    """
    from infra.local.kind_clusters import EngineMissing
    from infra.local.local_run import LocalRunError
    from infra.local_control_plane import ControlPlaneError
    from infra.local_control_plane.binaries import BinaryNotFound
    from shared.kube import ApiError
    from shared.kube.connect import KubeconfigError

    known: tuple[type[Exception], ...] = (
        Failure,
        WaitTimeout,
        LocalRunError,
        EngineMissing,
        ControlPlaneError,
        BinaryNotFound,
        ApiError,
        KubeconfigError,
        TimeoutError,
        *expected,
    )
    try:
        yield
    except known as error:
        parts = [str(error), *(f"({note})" for note in getattr(error, "__notes__", ()))]
        err.print(f"[red]error:[/red] {escape(' '.join(parts))}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@contextmanager
def usable_folder(folder: Path, remedy: str) -> Iterator[None]:
    """Raises `Failure` with the remedy if the block cannot write to the folder (read-only, or a file)."""
    try:
        yield
    except OSError as error:
        names_folder = error.filename is not None and folder.absolute().is_relative_to(Path(error.filename).absolute())
        if not names_folder and error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT):
            raise
        raise Failure(f"{Path(error.filename or folder).absolute()}: {error.strerror}; {remedy}") from error
