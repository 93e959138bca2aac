"""Which targets of a rollout may be changed now, and why each other target waits. Pure.

The state of a rollout follows from the targets as they are; nothing is stored. So a new spec begins a rollout from its
first partition, and a lost event or a restart changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from shared.kube.selectors import matcher
from shared.windows import opening

State = Literal["absent", "available", "unavailable"]

REST = "remaining"
"""The name of the last partition: the targets that no partition of the strategy selects."""


@dataclass(frozen=True)
class Target:
    """One target of a rollout.

    Attributes:
        name: The name of the Cluster.
        labels: Its labels.
        up_to_date: Whether it has the wanted spec.
        state: `absent` if nothing is installed yet, `available` if it is ready.
        waits_for: Why it cannot be changed, whatever the strategy allows; empty if it can.
        failed: Whether its present spec has failed, so that it is unavailable.
    """

    name: str
    labels: Mapping[str, str]
    up_to_date: bool
    state: State
    waits_for: str = ""
    failed: bool = False

    @property
    def done(self) -> bool:
        """Whether the target has the wanted spec and is ready."""
        return self.up_to_date and self.state == "available"


@dataclass(frozen=True)
class Partition:
    """The state of one partition, after the allowed changes.

    Attributes:
        members: The names of its targets, in order.
        max_unavailable: How many of its targets may be unavailable at once.
        unavailable: The names of the targets that are unavailable, in order.
        done: Whether all its targets are up to date and ready.
    """

    name: str
    members: tuple[str, ...]
    max_unavailable: int
    up_to_date: int
    unavailable: tuple[str, ...]
    done: bool

    def dump(self) -> dict[str, Any]:
        """Returns the entry of the partition in a status."""
        return {
            "name": self.name,
            "count": len(self.members),
            "maxUnavailable": self.max_unavailable,
            "upToDate": self.up_to_date,
            "unavailable": len(self.unavailable),
        }


@dataclass(frozen=True)
class Rollout:
    """The state of a rollout.

    Attributes:
        allowed: The names of the targets that may be changed now.
        waiting: The reason by the name of each target that has to be changed and may not be.
        partitions: In their order; the partition of the remaining targets only if it has some.
        problems: What is wrong with the partitions of the strategy.
        wrong_windows: What is wrong with its windows.
        opens_at: When the next window begins; None without windows, or if one is open.
    """

    allowed: frozenset[str]
    waiting: Mapping[str, str]
    partitions: tuple[Partition, ...]
    problems: tuple[str, ...]
    wrong_windows: tuple[str, ...] = ()
    opens_at: datetime | None = None

    @property
    def reasons(self) -> list[str]:
        """Why targets wait, and how many, the most frequent reason first."""
        found = Counter(self.waiting.values()).most_common()
        return [f"{count} {'Cluster waits' if count == 1 else 'Clusters wait'}: {text}" for text, count in found]

    def dump(self) -> dict[str, Any]:
        """Returns the field `rollout` of a status."""
        return {"partitions": [one.dump() for one in self.partitions], "waiting": len(self.waiting)}


def assess(strategy: Mapping[str, Any], targets: Iterable[Target], now: datetime) -> Rollout:
    """Returns the state of a rollout.

    A partition begins when all targets of the partitions before it are done. Within a partition, changes of available
    and absent targets use up `maxUnavailable`. An unavailable target is already counted, so it may always be changed.

    Args:
        strategy: `spec.rolloutStrategy`; an empty one changes all targets at once.
        targets: The targets.
        now: The present time, which decides about windows.
    """
    members, problems = _assign(strategy.get("partitions") or [], sorted(targets, key=lambda target: target.name))
    allowed: set[str] = set()
    waiting: dict[str, str] = {}
    partitions: list[Partition] = []
    windows = strategy.get("windows") or []
    is_open, start, wrong = opening(windows, now) if windows else (True, None, [])
    before = _held(strategy, [one for _, _, found in members for one in found])
    if not before and not is_open:
        before = f"no window is open until {start:%Y-%m-%dT%H:%MZ}" if start else "no window will open again"
    for name, limit, found in members:
        most = _count(limit if limit is not None else strategy.get("maxUnavailable", "100%"), len(found))
        chosen = set() if before else _choose(found, most)
        unavailable = tuple(one.name for one in found if one.state == "unavailable" or one.name in chosen)
        up_to_date = sum(one.up_to_date or one.name in chosen for one in found)
        done = all(one.done for one in found)
        partitions.append(Partition(name, tuple(one.name for one in found), most, up_to_date, unavailable, done))
        full = (
            f"{len(unavailable)} of {len(found)} Clusters of partition {name} are unavailable, and at most {most} may "
            "be"
        )
        for one in found:
            if not one.up_to_date and one.name not in chosen:
                waiting[one.name] = before or one.waits_for or full
        allowed |= chosen
        if not done and not before:
            before = f"partition {name} is not up to date and ready yet"
    opens_at = None if is_open else start
    return Rollout(frozenset(allowed), waiting, tuple(partitions), tuple(problems), tuple(wrong), opens_at)


def forecast(strategy: Mapping[str, Any], targets: Iterable[Target], now: datetime) -> list[tuple[str, ...]]:
    """Returns the names of the targets that change together, step after step, if all of them become ready.

    A rollout that is paused, or held by failures, is taken as resumed, and a window as open. Targets that wait for
    something else are in no step, nor are the targets that wait for them.
    """
    resumed = {**strategy, "paused": False, "maxConsecutiveFailures": None, "windows": None}
    current, steps = list(targets), list[tuple[str, ...]]()
    while True:
        allowed = assess(resumed, current, now).allowed
        if allowed:
            steps.append(tuple(sorted(allowed)))
        after = [_settled(target, changed=target.name in allowed) for target in current]
        if after == current:
            return steps
        current = after


def _held(strategy: Mapping[str, Any], targets: Iterable[Target]) -> str:
    """Returns why no target may be changed: a pause, or failures of targets that follow each other in the order."""
    if strategy.get("paused"):
        return "the rollout is paused"
    most, row = strategy.get("maxConsecutiveFailures"), list[str]()
    for one in targets if most else ():
        if one.up_to_date and one.failed:
            row.append(one.name)
        elif one.done:
            row.clear()
        if most and len(row) >= most:
            return f"{len(row)} Clusters failed in a row, the last one is {row[-1]}"
    return ""


def _settled(target: Target, *, changed: bool) -> Target:
    return replace(target, up_to_date=True, state="available", failed=False) if target.up_to_date or changed else target


def _choose(targets: Sequence[Target], most: int) -> set[str]:
    """Returns the targets to change. Absent targets come first, because nothing that works is disturbed there."""
    outdated = [one for one in targets if not one.up_to_date and not one.waits_for]
    free = [one.name for one in outdated if one.state == "unavailable"]
    costly = sorted((one for one in outdated if one.state != "unavailable"), key=lambda one: one.state != "absent")
    slots = max(most - sum(one.state == "unavailable" for one in targets), 0)
    return {*free, *(one.name for one in costly[:slots])}


def _assign(
    partitions: Sequence[Mapping[str, Any]], targets: Sequence[Target]
) -> tuple[list[tuple[str, Any, list[Target]]], list[str]]:
    """Returns name, limit and targets of each partition, and the problems. A target belongs to its first partition."""
    members: list[tuple[str, Any, list[Target]]] = []
    problems: list[str] = []
    owner: dict[str, str] = {}
    for partition in partitions:
        name = str(partition.get("name", ""))
        selects = matcher(partition.get("clusterSelector") or {})
        found = [one for one in targets if selects(one.labels)]
        if not found:
            problems.append(f"partition {name} selects no Cluster")
        if twice := [one.name for one in found if one.name in owner]:
            first = f"partition {name} selects Cluster {twice[0]}, which belongs to partition {owner[twice[0]]}"
            problems.append(first if len(twice) == 1 else f"{first}, and {len(twice) - 1} more such Clusters")
        own = [one for one in found if one.name not in owner]
        owner |= {one.name: name for one in own}
        members.append((name, partition.get("maxUnavailable"), own))
    if rest := [one for one in targets if one.name not in owner]:
        members.append((REST, None, rest))
    return members, problems


def _count(limit: int | str, total: int) -> int:
    """Returns the limit as a number of targets; a percentage is rounded up."""
    text = str(limit)
    if text.endswith("%"):
        return -(-total * int(text[:-1]) // 100)
    return int(text)
