"""Waits for a state, and reports missing parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from shared.kube import Object, dig


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
        what: The awaited state, for the message of a timeout.
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


def failing_condition(*objects: Object | None) -> str:
    """Returns the first condition with status False or Unknown and a message, as one line; "" if there is none."""
    for obj in filter(None, objects):
        for condition in dig(obj, "status.conditions", []):
            status, message = condition.get("status"), condition.get("message")
            if status in ("False", "Unknown") and message:
                return f"{obj['kind']}: {condition['type']}={status}: {message}"
    return ""
