"""Reports expected failures in one line instead of a stack trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.markup import escape

from .output import WaitTimeout, err


class Failure(Exception):
    """A failure that the user can act on; only the message is printed."""


@contextmanager
def failures(*expected: type[Exception]) -> Iterator[None]:
    """Turns failures of these types, and the usual ones, into one line on stderr and exit code 1."""
    from infra.local.local_run import LocalRunError
    from infra.local_control_plane import ControlPlaneError
    from infra.local_control_plane.binaries import BinaryNotFound
    from shared.kube import ApiError
    from shared.kube.connect import KubeconfigError

    known: tuple[type[Exception], ...] = (
        Failure,
        WaitTimeout,
        LocalRunError,
        ControlPlaneError,
        BinaryNotFound,
        ApiError,
        KubeconfigError,
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
