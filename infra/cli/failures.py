"""Expected failures: one line for the user instead of a trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.markup import escape

from .output import WaitTimeout, err


class Failure(Exception):
    """Something the user can act on; the message is all that is shown."""


@contextmanager
def failures(*expected: type[Exception]) -> Iterator[None]:
    """Expected failures end with one line and exit code 1 instead of a trace."""
    from infra.local.stack import StackError
    from infra.local_control_plane import ControlPlaneError
    from infra.local_control_plane.binaries import BinaryNotFound
    from shared.kube import ApiError
    from shared.kube.connect import KubeconfigError

    known: tuple[type[Exception], ...] = (
        Failure,
        WaitTimeout,
        StackError,
        ControlPlaneError,
        BinaryNotFound,
        ApiError,
        KubeconfigError,
        *expected,
    )
    try:
        yield
    except known as error:
        told = [str(error), *(f"({note})" for note in getattr(error, "__notes__", ()))]
        err.print(f"[red]error:[/red] {escape(' '.join(told))}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
