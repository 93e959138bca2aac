"""Waits until objects of a management cluster are in a state, and reports why they are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
        raise ValueError(f"`{DELETE}` takes no status: leave out `=` and the text after it")
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


@dataclass
class ObjectWait:
    """A wait until all named objects are in the awaited state; a missing object may still be created.

    Attributes:
        client: The client of the management cluster.
        kind: The kind of the objects.
        namespace: The namespace of the objects; empty for all.
        names: The names of the objects, at least one.
        goal: The awaited state.
        obstacles: Why objects were not in the state at the last look, by name.
    """

    client: Client
    kind: Kind
    namespace: str
    names: Sequence[str]
    goal: Goal
    obstacles: dict[str, str] = field(default_factory=dict)

    def run(self, *, within: float, progress: Callable[[str], None]) -> None:
        """Waits for at most `within` seconds, and calls `progress` with each new obstacle.

        Raises:
            WaitTimeout: An object is not in that state in time; the message names the obstacle.
            ApiError: The objects cannot be read.
        """
        what = f"{', '.join(self.names)}: {self.goal}"
        wait_for(what, self._look, within=within, status=self._status, progress=progress, pause=_EVERY)

    def dump(self) -> Object:
        """Returns the result of the last look as JSON."""
        objects = [
            {"name": name, "reached": name not in self.obstacles, "reason": self.obstacles.get(name)}
            for name in self.names
        ]
        return {"for": str(self.goal), "reached": not self.obstacles, "objects": objects}

    def _look(self) -> bool:
        found = [row for row in self.kind.read(self.client, self.namespace, "") if key_of(row.obj).name in self.names]
        absent = {*self.names} - {key_of(row.obj).name for row in found}
        missing = {} if self.goal.condition == DELETE else dict.fromkeys(absent, "does not exist yet")
        present = {key_of(row.obj).name: why for row in found if (why := obstacle(row, self.goal))}
        self.obstacles = dict(sorted({**missing, **present}.items()))
        return not self.obstacles

    def _status(self) -> str:
        return "; ".join(f"{name}: {why}" for name, why in self.obstacles.items())


def _observed(obj: Object, condition: Object) -> bool:
    """Returns whether every observed generation is the present generation. A status without one counts."""
    generation = dig(obj, "metadata.generation")
    observed = [dig(obj, "status.observedGeneration"), condition.get("observedGeneration")]
    return all(one >= generation for one in observed if isinstance(one, int) and isinstance(generation, int))
