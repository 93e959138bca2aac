"""Waits until objects of a management cluster are in a state, and reports why they are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared.api.conditions import get_condition
from shared.kube import Client, Object, dig, key_of

from .listing import Kind, Row, Verdict
from .text import plain
from .waiting import wait_for

DELETE = "delete"
_EVERY = 1.0
"""Seconds between two reads."""


@dataclass(frozen=True)
class Goal:
    """The awaited state of an object.

    Attributes:
        condition: The type of a condition, or `delete`; empty for the verdict of `get`.
        status: The awaited status of the condition.
    """

    condition: str = ""
    status: str = "True"

    def __str__(self) -> str:
        if self.condition == DELETE:
            return "deletion"
        return f"{self.condition}={self.status}" if self.condition else "Ready"


def parse_goal(text: str) -> Goal:
    """Returns the goal of the option --for: `TYPE`, `TYPE=STATUS`, `delete`, or empty. Raises `ValueError`."""
    condition, _, status = text.partition("=")
    status = status or "True"
    if status not in ("True", "False", "Unknown") or (text and not condition):
        raise ValueError(f"{text!r} is not a condition such as Available or Available=False")
    if condition == DELETE and "=" in text:
        raise ValueError(f"`{DELETE}` has no status")
    return Goal(condition, status)


def obstacle(row: Row, goal: Goal) -> str:
    """Returns why an object is not in the awaited state, in one line; empty if it is."""
    if goal.condition == DELETE:
        return row.verdict.text() or "exists"
    if goal.condition:
        condition = get_condition(dig(row.obj, "status.conditions"), goal.condition)
        if condition is None:
            return f"has no condition {goal.condition} yet"
        if not _observed(row.obj, condition):
            return "its last change is not reconciled yet"
        status = str(condition.get("status"))
        why = Verdict(status, *(str(condition.get(part) or "") for part in ("reason", "message"))).text()
        return "" if status == goal.status else ": ".join(filter(None, (f"{goal.condition}={status}", why)))
    if row.verdict.ready != "True" or row.verdict.reason:
        return row.verdict.text() or f"Ready={row.verdict.ready}"
    wanted, applied = row.cells.get("CLASS", ""), row.cells.get("APPLIED", "")
    if row.obj["kind"] == "Cluster" and applied and wanted != applied:
        return plain(f"the addons of the class {wanted} are not applied yet", most=200)
    return "" if _observed(row.obj, {}) else "its last change is not reconciled yet"


def wait_for_objects(
    client: Client,
    kind: Kind,
    namespace: str,
    names: Sequence[str],
    goal: Goal,
    *,
    within: float,
    progress: Callable[[str], None],
) -> None:
    """Waits until all named objects are in the awaited state; a missing object may still be created.

    Args:
        client: The client of the management cluster.
        kind: The kind of the objects.
        namespace: The namespace of the objects; empty for all.
        names: The names of the objects, at least one.
        goal: The awaited state.
        within: Seconds until the timeout.
        progress: Called with each new obstacle.

    Raises:
        WaitTimeout: An object is not in that state in time; the message names the obstacle.
        ApiError: The objects cannot be read.
    """
    current = ""

    def attempt() -> bool:
        nonlocal current
        found = [row for row in kind.read(client, namespace, "") if key_of(row.obj).name in names]
        missing = [] if goal.condition == DELETE else sorted(set(names) - {key_of(row.obj).name for row in found})
        obstacles = [f"{name}: does not exist yet" for name in missing]
        obstacles += [f"{key_of(row.obj).name}: {why}" for row in found if (why := obstacle(row, goal))]
        current = "; ".join(sorted(obstacles))
        return not obstacles

    what = f"{', '.join(names)}: {goal}"
    wait_for(what, attempt, within=within, status=lambda: current, progress=progress, pause=_EVERY)


def _observed(obj: Object, condition: Object) -> bool:
    """Returns whether every observed generation is the present generation. A status without one counts."""
    generation = dig(obj, "metadata.generation")
    observed = [dig(obj, "status.observedGeneration"), condition.get("observedGeneration")]
    return all(one >= generation for one in observed if isinstance(one, int) and isinstance(generation, int))
