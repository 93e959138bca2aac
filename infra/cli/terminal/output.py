"""The output of commands: lines with the seconds since the start, and trees of objects with their conditions.

In colour on a terminal, else plain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from shared.kube import Object, dig, key_of

out = Console(soft_wrap=True, highlight=False, emoji=False)
err = Console(soft_wrap=True, highlight=False, emoji=False, stderr=True)


_WIDE = 10_000
"""Columns of a line that is not wrapped."""


def unwrapped(console: Console) -> Console:
    """Returns the console if it is a terminal, else a console that does not wrap lines."""
    return console if console.is_terminal else Console(file=console.file, width=_WIDE, highlight=False, emoji=False)


def progress(line: str) -> None:
    """Prints a line about work that takes time, on stderr."""
    err.print(escape(line))


def conditions(obj: Mapping[str, Any]) -> list[str]:
    """Returns a line for each condition of an object, with markup."""
    lines = []
    for condition in dig(obj, "status.conditions", []):
        if "type" not in condition:  # a history of messages, not Kubernetes conditions
            lines.append(f"{condition.get('timestamp', '')} {condition.get('message', '')}".strip())
            continue
        good = condition.get("status") == "True"
        detail = ": ".join(text for text in (condition.get("reason"), condition.get("message")) if text)
        colour = "green" if good else "yellow"
        lines.append(f"[{colour}]{condition['type']}={condition.get('status')}[/{colour}] {escape(detail)}".strip())
    return lines


def describe(obj: Mapping[str, Any], *, detail: str = "") -> str:
    """Returns kind, namespace and name of an object in one line, with markup."""
    key = key_of(obj)
    where = f"{key.namespace}/" if key.namespace else ""
    return f"[bold]{obj['kind']}[/bold] {escape(where + key.name)}" + (f"  {escape(detail)}" if detail else "")


def tree(title: str, objects: Iterable[tuple[Object, str, list[str]]]) -> Tree:
    """Returns a tree of objects, given as (object, detail, extra lines), with their conditions."""
    root = Tree(title)
    for obj, detail, extra in objects:
        branch = root.add(describe(obj, detail=detail))
        for line in [*conditions(obj), *extra]:
            branch.add(line)
    return root
