"""Judges whether a forwarder does its work. Pure, and shared by probes, metrics and the Lease.

A forwarder that stands by watches as well, so it is judged in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Check = Literal["watch", "worker", "queue", "list"]
CHECKS: tuple[Check, ...] = ("watch", "worker", "queue", "list")

STUCK_AFTER = 360.0
"""Seconds after which a delivery counts as stuck: three times as long as a function may take for its answer."""


@dataclass(frozen=True)
class KindHealth:
    """One kind that is watched.

    Attributes:
        name: The kind.
        listed: Whether the first list is complete, or the kind is not served.
        expected_by: The time at which the API server must have answered again: with a page of a list, an event, a
            bookmark, the opening of a watch, or an error.
    """

    name: str
    listed: bool
    expected_by: float


@dataclass(frozen=True)
class CallHealth:
    """A delivery in progress: the function, and the time of the start."""

    function: str
    since: float


@dataclass(frozen=True)
class Activity:
    """The activity of a forwarder at a moment. All times are of one clock, in seconds.

    Attributes:
        kinds: The kinds that are watched.
        calls: The deliveries in progress.
        oldest: Seconds since the oldest event that is not delivered yet became due; 0 if there is none.
        progress: The time at which a delivery last began or ended.
        workers: Whether all threads that deliver events run.
    """

    kinds: Sequence[KindHealth]
    calls: Sequence[CallHealth] = ()
    oldest: float = 0.0
    progress: float = 0.0
    workers: bool = True


@dataclass(frozen=True)
class Problem:
    """The obstacles to a forwarder's work."""

    check: Check
    message: str


def problems(activity: Activity, now: float, stuck_after: float = STUCK_AFTER) -> list[Problem]:
    """Returns the kinds and deliveries that hang. A forwarder with a problem gives up its Lease and takes none."""
    found = [
        Problem("watch", f"{kind.name}: the API server has not answered for {now - kind.expected_by:.0f} s too long")
        for kind in activity.kinds
        if now > kind.expected_by
    ]
    found += [
        Problem("worker", f"a delivery to {call.function} has been in progress for {now - call.since:.0f} s")
        for call in activity.calls
        if now - call.since > stuck_after
    ]
    if not activity.workers:
        found.append(Problem("worker", "a thread that delivers events has ended"))
    if activity.oldest > stuck_after and now - activity.progress > stuck_after:
        found.append(Problem("queue", f"an event has been due for {activity.oldest:.0f} s, and none is delivered"))
    return found


def unready(activity: Activity, now: float, stuck_after: float = STUCK_AFTER) -> list[Problem]:
    """Returns the problems and the kinds that are not listed yet. A standby can be ready."""
    unlisted = [Problem("list", f"{kind.name} is not listed yet") for kind in activity.kinds if not kind.listed]
    return problems(activity, now, stuck_after) + unlisted


def dead(activity: Activity, now: float, stuck_after: float = STUCK_AFTER) -> list[Problem]:
    """Returns the problems that a restart of the process may solve.

    If all watches are silent, there is no such problem, because the API server or the network is down.
    """
    found = problems(activity, now, stuck_after)
    is_cut_off = all(now > kind.expected_by for kind in activity.kinds)
    return [problem for problem in found if problem.check != "watch" or not is_cut_off]
