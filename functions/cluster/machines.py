"""Sets the conditions of a Cluster that are about its Machines and their owners.

Each except `Remediating` aggregates one condition of several objects, as a row of `AGGREGATES` defines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from shared.api import cluster as cluster_api
from shared.api.cluster import ClusterCondition, conditions
from shared.api.conditions import get_condition
from shared.api.resources import MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET
from shared.api.summary import Merged, Reasons
from shared.kube import Object, owned_by

from .descendants import Descendants, is_of_pool, machines
from .merge import aggregate, subject
from .observed import Observed
from .status import ClusterStatusBuilder

_NEW = timedelta(seconds=10)
"""The time that a new Machine has until it is expected to report whether it is up to date."""
UNREADABLE = "InternalError"
"""The reason of a condition whose objects could not be read."""

Members = Callable[[Observed, Descendants, "Aggregate", datetime], Iterable[Object]]


@dataclass(frozen=True)
class Aggregate:
    """A condition of the Cluster that aggregates the condition `of` objects.

    Attributes:
        type: The type of the Cluster's condition.
        of: The type of the objects' condition.
        members: Returns the objects.
        none: The reason of the good condition if there are no objects.
        reasons: The reasons with objects.
        negative: Whether False is good.
        with_control_plane: Whether the control-plane object is among the objects.
    """

    type: ClusterCondition
    of: str
    members: Members
    none: str
    reasons: Reasons
    negative: bool = False
    with_control_plane: bool = False


def _workers(_: Observed, descendants: Descendants, one: Aggregate, _now: datetime) -> Iterator[Object]:
    yield from descendants.get(MACHINE_DEPLOYMENT, ())
    yield from _reporting(descendants.get(MACHINE_POOL, ()), one)


def _rolling_out(observed: Observed, descendants: Descendants, one: Aggregate, now: datetime) -> Iterator[Object]:
    control_plane = observed.control_plane.object
    yield from _reporting([control_plane] if control_plane else [], one)
    yield from _workers(observed, descendants, one, now)


def _scaling(observed: Observed, descendants: Descendants, one: Aggregate, now: datetime) -> Iterator[Object]:
    yield from _rolling_out(observed, descendants, one, now)
    yield from (each for each in descendants.get(MACHINE_SET, ()) if owned_by(each, observed.cluster or {}))


def _reporting(objects: Iterable[Object], one: Aggregate) -> Iterator[Object]:
    """Yields the objects that report the condition; a provider's objects need not, and MachinePools do not yet."""
    yield from (obj for obj in objects if get_condition(conditions(obj), one.of) is not None)


def _control_plane(_: Observed, descendants: Descendants, _one: Aggregate, _now: datetime) -> Iterable[Object]:
    return machines(descendants, control_plane=True)


def _worker_machines(_: Observed, descendants: Descendants, _one: Aggregate, _now: datetime) -> Iterable[Object]:
    return (machine for machine in machines(descendants, control_plane=False) if not is_of_pool(machine))


def _known(members: Members) -> Members:
    """Returns the same members without new Machines that do not report the condition yet."""

    def known(observed: Observed, descendants: Descendants, one: Aggregate, now: datetime) -> Iterator[Object]:
        for machine in members(observed, descendants, one, now):
            created = cluster_api.created_at(machine)
            is_new = created is not None and now - created <= _NEW
            if not is_new or get_condition(conditions(machine), one.of) is not None:
                yield machine

    return known


_READY = Reasons("Ready", "NotReady", "ReadyUnknown")
_UP_TO_DATE = Reasons("UpToDate", "NotUpToDate", "UpToDateUnknown")


def _changing(type_: ClusterCondition, members: Members) -> Aggregate:
    reasons = Reasons(f"Not{type_}", type_, f"{type_}Unknown")
    return Aggregate(type_, type_, members, f"Not{type_}", reasons, negative=True, with_control_plane=True)


AGGREGATES = (
    Aggregate(
        "WorkersAvailable", "Available", _workers, "NoWorkers", Reasons("Available", "NotAvailable", "AvailableUnknown")
    ),
    Aggregate("ControlPlaneMachinesReady", "Ready", _control_plane, "NoReplicas", _READY),
    Aggregate("WorkerMachinesReady", "Ready", _worker_machines, "NoReplicas", _READY),
    Aggregate("ControlPlaneMachinesUpToDate", "UpToDate", _known(_control_plane), "NoReplicas", _UP_TO_DATE),
    Aggregate("WorkerMachinesUpToDate", "UpToDate", _known(_worker_machines), "NoReplicas", _UP_TO_DATE),
    _changing("RollingOut", _rolling_out),
    _changing("ScalingUp", _scaling),
    _changing("ScalingDown", _scaling),
)


def set_aggregate(builder: ClusterStatusBuilder, observed: Observed, one: Aggregate) -> None:
    """Sets the condition to the aggregate, or says why the objects could not be read."""
    unreadable = one.with_control_plane and observed.control_plane.state == "failed"
    failure = observed.failure or (observed.control_plane.error if unreadable else "")
    if failure:
        builder.set(one.type, "Unknown", UNREADABLE, failure)
    elif observed.descendants is None:
        builder.keep(one.type)
    elif objects := list(one.members(observed, observed.descendants, one, builder.now)):
        builder.set(one.type, *aggregate(objects, one.of, one.reasons, conditions, negative=one.negative))
    else:
        builder.set(one.type, "False" if one.negative else "True", one.none)


def set_remediating(builder: ClusterStatusBuilder, observed: Observed) -> None:
    """Sets `Remediating`: whether owners of unhealthy Machines replace these."""
    type_: Final = "Remediating"
    if observed.failure:
        builder.set(type_, "Unknown", UNREADABLE, observed.failure)
    elif observed.descendants is None:
        builder.keep(type_)
    else:
        own = [machine for machine in observed.descendants.get(MACHINE, ()) if not is_of_pool(machine)]
        unhealthy = [machine for machine in own if _is_false(machine, "HealthCheckSucceeded")]
        replaced = [machine for machine in unhealthy if _is_false(machine, "OwnerRemediated")]
        builder.set(type_, *_remediation(unhealthy, replaced))


def _remediation(unhealthy: list[Object], replaced: list[Object]) -> Merged:
    if replaced:
        return Merged(
            "True", "Remediating", aggregate(replaced, "OwnerRemediated", Reasons("", "", ""), conditions).message
        )
    names = sorted(machine["metadata"]["name"] for machine in unhealthy)
    if not names:
        return Merged("False", "NotRemediating", "")
    verb = "are" if len(names) > 1 else "is"
    message = f"{subject(MACHINE.kind, names)} {verb} not healthy (not to be remediated)"
    return Merged("False", "NotRemediating", message)


def _is_false(machine: Object, type_: str) -> bool:
    return (get_condition(conditions(machine), type_) or {}).get("status") == "False"
