"""Builds the status of an object: its conditions, and the Kubernetes events that go with them.

Each `decide` and `report` begins with a builder made from the object that it read, sets the conditions that it owns,
and ends with `decision(...)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final, Generic, TypeVar

from ..api.conditions import (
    READY,
    get_condition,
    is_true,
    remove_condition,
    seconds_since,
    set_condition,
    summary,
    truncate,
)
from ..api.summary import Reasons, summarize
from ..effects import Effect
from ..event import Event
from ..kube import Object, dig
from .decision import Decision
from .recorder import KubernetesEvent

C = TypeVar("C", bound=str)  # the types of the conditions that the builder may set, as a Literal

PAUSED: Final = "Paused"
_READY = Reasons("InfoReported", "IssuesReported", "UnknownReported")


@dataclass
class StatusBuilder(Generic[C]):
    """Builds conditions in the shape of metav1.Condition, with `observedGeneration`.

    `C` declares the types of the conditions: mypy refuses others. The builder starts with the conditions of `obj`.
    Setting a condition with an `event_type` ("Normal" or "Warning")
    also adds a Kubernetes event with the same reason and message, unless `obj` already has the condition with this
    status, reason and message. `progress` marks a message that changes while work proceeds: a new message alone adds
    no event.
    """

    obj: Object
    now: datetime
    conditions: list[Object] = field(default_factory=list)
    kubernetes_events: list[KubernetesEvent] = field(default_factory=list)
    updated_types: set[str] = field(default_factory=set, init=False)
    """The types of the conditions that were set since the builder was made."""
    initial: list[Object] = field(default_factory=list, init=False)
    """The conditions of `obj`."""
    has_generation: ClassVar[bool] = True
    """Whether the conditions have an `observedGeneration`."""

    def __post_init__(self) -> None:
        self.initial = list(dig(self.obj, "status.conditions", []))
        self.conditions = list(self.initial)

    def set_true(
        self, type_: C, reason: str = "", message: str = "", *, event_type: str = "", progress: bool = False
    ) -> None:
        """Sets the condition to True."""
        self.set(type_, "True", reason, message, event_type=event_type, progress=progress)

    def set_false(self, type_: C, reason: str, message: str, *, event_type: str = "", progress: bool = False) -> None:
        """Sets the condition to False."""
        self.set(type_, "False", reason, message, event_type=event_type, progress=progress)

    def set(
        self,
        type_: C,
        status: str,
        reason: str,
        message: str = "",
        *,
        severity: str | None = None,
        event_type: str = "",
        progress: bool = False,
    ) -> None:
        """Sets the condition; `status` is "True", "False" or "Unknown"."""
        message = truncate(message)
        self.updated_types.add(type_)
        initial = get_condition(self.initial, type_) or {}
        same = (initial.get("status"), initial.get("reason") or "") == (status, reason)
        if event_type and not (same and (progress or (initial.get("message") or "") == message)):
            self.kubernetes_events.append(KubernetesEvent(reason, message or reason, event_type, type_))
        self.conditions = set_condition(
            self.conditions,
            type_,
            status,
            reason,
            message,
            now=self.now,
            severity=severity,
            observed_generation=self.generation,
        )

    def add_event(self, reason: str, message: str, event_type: str = "Normal") -> None:
        """Adds a Kubernetes event that belongs to no condition."""
        self.kubernetes_events.append(KubernetesEvent(reason, message, event_type))

    @property
    def generation(self) -> int | None:
        """The `observedGeneration` of the conditions: the generation of `obj`; None without `has_generation`."""
        generation: int | None = dig(self.obj, "metadata.generation")
        return generation if self.has_generation else None

    def remove(self, *types: C) -> None:
        """Removes the conditions of these types; types without a condition are ignored."""
        for type_ in types:
            self.conditions = remove_condition(self.conditions, type_)

    def is_true(self, type_: C) -> bool:
        """Returns whether the condition is True; False without a condition of this type."""
        return is_true(self.conditions, type_)

    def seconds_since(self, type_: C) -> float:
        """Returns the seconds since the status of the condition last changed; 0 without a condition of this type."""
        return seconds_since(self.conditions, type_, self.now)

    def status(self, **fields: object) -> Object:
        """Returns the merge patch of the status: all conditions, their summary, and `fields`."""
        return {"conditions": self.summarized(), **fields}

    def decision(
        self,
        *effects: Effect,
        message: str = "",
        requeue_after: float | None = None,
        reply: Event | None = None,
        proceed: bool = False,
        **fields: object,
    ) -> Decision:
        """Returns the decision with these effects, and with the status and Kubernetes events that were built.

        `fields` are fields of `status`; the other arguments are as for `Decision`.
        """
        return Decision(
            effects,
            self.status(**fields),
            tuple(self.kubernetes_events),
            requeue_after=requeue_after,
            reply=reply,
            message=message,
            proceed=proceed,
        )

    def summarized(self) -> list[Object]:
        """Returns the conditions to write; a subclass adds summaries of the others."""
        return self.conditions


@dataclass
class SummarizedStatusBuilder(StatusBuilder[C]):
    """Builds conditions with `Ready` first, which summarizes the conditions in `parts`, which follow it."""

    parts: ClassVar[tuple[str, ...]] = ()

    def summarized(self) -> list[Object]:
        """Returns the conditions with `Ready`, in order."""
        merged = summarize(self.conditions, self.parts, _READY)
        conditions = set_condition(self.conditions, READY, *merged, now=self.now, observed_generation=self.generation)
        rank = {type_: position for position, type_ in enumerate((READY, *self.parts))}
        return sorted(conditions, key=lambda condition: rank.get(condition["type"], len(rank)))


@dataclass
class V1Beta1StatusBuilder(StatusBuilder[C]):
    """Builds conditions in the shape of Cluster API's v1beta1: with severities, without generations.

    `Ready` summarizes the others. If several are False, `Ready` shows a condition that this builder has set, because
    the others come from earlier decisions and may be outdated.
    """

    has_generation = False

    def set_false(
        self,
        type_: C,
        reason: str,
        message: str,
        severity: str = "Info",
        *,
        event_type: str = "",
        progress: bool = False,
    ) -> None:
        """Sets the condition to False; `severity` is "Error", "Warning" or "Info"."""
        self.set(type_, "False", reason, message, severity=severity, event_type=event_type, progress=progress)

    def summarized(self) -> list[Object]:
        """Returns the conditions with `Ready`."""
        return summary(self.conditions, now=self.now, first=self.updated_types)

    def paused_status(self) -> Object:
        """Returns the status of a paused object: `Paused` is True, all other conditions stay as they are."""
        message = "Not reconciled until the annotation cluster.x-k8s.io/paused is removed"
        return {"conditions": set_condition(self.conditions, PAUSED, "True", message=message, now=self.now)}
