"""Follows a state until Ctrl-C: drawn anew on a terminal, else one line for each change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import NoReturn, TypeVar

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from infra.operations.text import plain, visible
from shared.kube import Unavailable

from .output import unwrapped

State = TypeVar("State")
_EVERY = 2.0
"""Seconds between two reads."""


def unbroken(lines: Iterable[str]) -> Text:
    """Returns lines that a terminal cuts instead of wrapping."""
    return Text(visible("\n".join(lines)), no_wrap=True, overflow="ellipsis")


def follow(
    console: Console,
    read: Callable[[], State],
    *,
    draw: Callable[[State], RenderableType],
    changes: Callable[[State, State], Iterable[str]],
) -> NoReturn:
    """Shows a state and its changes until Ctrl-C; a read that fails because the API server is away is repeated.

    Args:
        console: The console; a terminal shows the newest state, a pipe gets a line for each change.
        read: Returns the present state; its first failure ends the command.
        draw: Returns the output of a state.
        changes: Returns lines about the differences of two states.
    """
    state = read()
    with ExitStack() as stack:
        live = None
        if console.is_terminal:
            live = stack.enter_context(Live(draw(state), console=console, auto_refresh=False))
        else:
            unwrapped(console).print(draw(state))
        while True:
            time.sleep(_EVERY)
            try:
                former, state = state, read()
            except Unavailable as error:
                console.print(f"not read, tried again: {plain(error)}", markup=False)
                continue
            if live:
                live.update(draw(state), refresh=True)
                continue
            for line in changes(former, state):
                console.print(line, markup=False)
