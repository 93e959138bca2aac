"""The output of commands: in colour on a terminal, else plain."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from infra.operations.text import visible


class _Console(Console):
    """A console that shows escape sequences in text from a cluster, and passes none to the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Returns the text with its markup."""
        return super().render_str(visible(text), **options)


out = _Console(soft_wrap=True, highlight=False, emoji=False)
err = _Console(soft_wrap=True, highlight=False, emoji=False, stderr=True)

_WIDE = 10_000
"""Columns of a line that is not wrapped."""


def unwrapped(console: Console) -> Console:
    """Returns the console if it is a terminal, else a console that does not wrap lines."""
    return console if console.is_terminal else _Console(file=console.file, width=_WIDE, highlight=False, emoji=False)


def print_either(document: object, lines: Iterable[str], *, as_json: bool, markup: bool = False) -> None:
    """Prints a document as JSON, or lines for people."""
    if as_json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    for line in lines:
        out.print(line, markup=markup)


def progress(line: str) -> None:
    """Prints a line about work that takes time, on stderr."""
    err.print(escape(line))
