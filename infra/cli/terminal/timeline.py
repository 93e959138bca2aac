"""Lines with the seconds since the start of a command."""

from __future__ import annotations

import time

from rich.console import Console
from rich.markup import escape

from .output import out


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
