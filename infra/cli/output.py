"""How the command line talks: lines with seconds in front, and a tree of objects with what they say of themselves.

On a terminal in colour, elsewhere plain lines that a log keeps well.
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
    """What happened when, in seconds since the start; remembered for the summary at the end."""

    def __init__(self, console: Console = out) -> None:
        self._console = console
        self._started = time.monotonic()
        self.steps: list[tuple[str, float, float]] = []
        self._step_started = 0.0

    @property
    def now(self) -> float:
        return time.monotonic() - self._started

    def say(self, text: str, *, mark: str = " ", style: str = "") -> None:
        line = f"{self.now:7.1f}s {mark} {escape(text)}"
        self._console.print(f"[{style}]{line}[/{style}]" if style else line)

    def begin(self, title: str) -> None:
        self._step_started = self.now
        self.say(title, mark="▶", style="bold")

    def done(self, title: str) -> None:
        self.steps.append((title, self._step_started, self.now))
        self.say(title, mark="✔", style="green")

    def summary(self) -> None:
        self._console.print()
        for title, started, ended in self.steps:
            self._console.print(f"  {started:7.1f}s  {ended - started:6.1f}s  {escape(title)}")


class WaitTimeout(Exception):
    """Something did not come about; the message says what was waited for and what was last heard."""


def wait_for(
    what: str,
    attempt: Callable[[], Any],
    *,
    within: float,
    hear: Callable[[], str] = lambda: "",
    tell: Callable[[str], None] = lambda _line: None,
    pause: float = 0.05,
) -> Any:
    """Repeats `attempt` until it returns something true. News from `hear` are told as they change."""
    deadline = time.monotonic() + within
    heard = ""
    while True:
        result = attempt()
        if result:
            return result
        news = hear()
        if news and news != heard:
            heard = news
            tell(news)
        if time.monotonic() > deadline:
            raise WaitTimeout(
                f"{what} did not come about within {within:g} s" + (f"; last heard: {heard}" if heard else "")
            )
        time.sleep(pause)


def conditions(obj: Mapping[str, Any]) -> list[str]:
    """One line per condition, worst news in full."""
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


def news(*objects: Object | None) -> str:
    """The first condition that is not as it should be, and says why; "" where there is none."""
    for obj in filter(None, objects):
        for condition in dig(obj, "status.conditions", []):
            status, message = condition.get("status"), condition.get("message")
            if status in ("False", "Unknown") and message:
                return f"{obj['kind']}: {condition['type']}={status}: {message}"
    return ""


def describe(obj: Mapping[str, Any], *, detail: str = "") -> str:
    key = key_of(obj)
    where = f"{key.namespace}/" if key.namespace else ""
    return f"[bold]{obj['kind']}[/bold] {escape(where + key.name)}" + (f"  {escape(detail)}" if detail else "")


def tree(title: str, objects: Iterable[tuple[Object, str, list[str]]]) -> Tree:
    """Objects as (object, detail, extra lines), each with its conditions below it."""
    root = Tree(title)
    for obj, detail, extra in objects:
        branch = root.add(describe(obj, detail=detail))
        for line in [*conditions(obj), *extra]:
            branch.add(line)
    return root
