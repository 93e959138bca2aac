"""The output of commands: lines with the seconds since the start, and trees of objects with their conditions.

In colour on a terminal, else plain.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from shared.kube import Object, dig, key_of

out = Console(soft_wrap=True, highlight=False, emoji=False)
err = Console(soft_wrap=True, highlight=False, emoji=False, stderr=True)


class Timeline:
    """Prints lines with the seconds since the start, and a summary of all steps at the end."""

    def __init__(self, console: Console = out) -> None:
        self._console = console
        self._started = time.monotonic()
        self.steps: list[tuple[str, float, float]] = []
        self._step_started = 0.0

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def say(self, text: str, *, mark: str = " ", style: str = "") -> None:
        """Prints a line."""
        line = f"{self.now:7.1f}s {mark} {escape(text)}"
        self._console.print(f"[{style}]{line}[/{style}]" if style else line)

    def begin(self, title: str) -> None:
        """Begins a step."""
        self._step_started = self.now
        self.say(title, mark="▶", style="bold")

    def done(self, title: str) -> None:
        """Ends the step; `title` says what was done."""
        self.steps.append((title, self._step_started, self.now))
        self.say(title, mark="✔", style="green")

    def summary(self) -> None:
        """Prints the steps with their start and duration in seconds."""
        self._console.print()
        for title, started, ended in self.steps:
            self._console.print(f"  {started:7.1f}s  {ended - started:6.1f}s  {escape(title)}")


class WaitTimeout(Exception):
    """A wait timed out; the message contains the awaited state, and the last status."""


def wait_for(
    what: str,
    attempt: Callable[[], Any],
    *,
    within: float,
    status: Callable[[], str] = lambda: "",
    progress: Callable[[str], None] = lambda _line: None,
    pause: float = 0.05,
) -> Any:
    """Repeats `attempt` until its result is true, and returns the result.

    Args:
        what: What is awaited, for the message of a timeout.
        attempt: Called every `pause` seconds.
        within: Seconds until the timeout.
        status: Returns the current status, "" for none.
        progress: Called with each new status.
        pause: Seconds between two attempts.

    Raises:
        WaitTimeout: The result is still false after `within` seconds.
    """
    deadline = time.monotonic() + within
    last = ""
    while True:
        result = attempt()
        if result:
            return result
        current = status()
        if current and current != last:
            last = current
            progress(current)
        if time.monotonic() > deadline:
            raise WaitTimeout(
                f"timed out after {within:g} s waiting for {what}" + (f"; last status: {last}" if last else "")
            )
        time.sleep(pause)


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


def failing_condition(*objects: Object | None) -> str:
    """Returns the first condition with status False or Unknown and a message, as one line; "" if there is none."""
    for obj in filter(None, objects):
        for condition in dig(obj, "status.conditions", []):
            status, message = condition.get("status"), condition.get("message")
            if status in ("False", "Unknown") and message:
                return f"{obj['kind']}: {condition['type']}={status}: {message}"
    return ""


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
