"""A decision while it is being made: the object's conditions, and the events that go with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from ..api.conditions import get_condition, is_true, remove_condition, seconds_since, set_condition, shortened, summary
from ..kube import Object, dig
from .notice import Notice

PAUSED = "Paused"


@dataclass
class Draft:
    """Starts from what `obj` says now; in metav1's shape, where a condition names the generation that it is of.

    `tell` is the type of the event that says the same: once, until status, reason or message are others. With
    `progress` the message changes as things go on, and is no news as long as status and reason stay.
    """

    obj: Object
    now: datetime
    conditions: list[Object] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    stated: set[str] = field(default_factory=set, init=False)
    """The types of the conditions that this decision has said something about."""
    before: list[Object] = field(default_factory=list, init=False)
    """The conditions that the decision starts from."""

    def __post_init__(self) -> None:
        self.before = list(dig(self.obj, "status.conditions", []))
        self.conditions = list(self.before)

    def true(self, type_: str, reason: str = "", message: str = "", *, tell: str = "", progress: bool = False) -> None:
        self.condition(type_, "True", reason, message, tell=tell, progress=progress)

    def false(self, type_: str, reason: str, message: str, *, tell: str = "", progress: bool = False) -> None:
        self.condition(type_, "False", reason, message, tell=tell, progress=progress)

    def condition(
        self,
        type_: str,
        status: str,
        reason: str,
        message: str = "",
        *,
        severity: str | None = None,
        tell: str = "",
        progress: bool = False,
    ) -> None:
        message = shortened(message)
        self.stated.add(type_)
        before = get_condition(self.before, type_) or {}
        same = (before.get("status"), before.get("reason") or "") == (status, reason)
        if tell and not (same and (progress or (before.get("message") or "") == message)):
            self.notices.append(Notice(reason, message or reason, tell, type_))
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

    @property
    def generation(self) -> int | None:
        generation: int | None = dig(self.obj, "metadata.generation")
        return generation

    def drop(self, *types: str) -> None:
        for type_ in types:
            self.conditions = remove_condition(self.conditions, type_)

    def is_true(self, type_: str) -> bool:
        return is_true(self.conditions, type_)

    def since(self, type_: str) -> float:
        """Seconds since the condition became what it is; 0 where there is none."""
        return seconds_since(self.conditions, type_, self.now)

    def status(self, **fields: object) -> Object:
        """The patch: all conditions, with what sums them up, and these fields."""
        return {"conditions": self.summed_up(), **fields}

    def summed_up(self) -> list[Object]:
        return self.conditions


@dataclass
class Verdict(Draft):
    """In Cluster API's v1beta1 shape: with severities, without generations, `Ready` telling of all others.

    What the decision at hand has found to be False comes first in it: the rest was found earlier.
    """

    def false(
        self, type_: str, reason: str, message: str, severity: str = "Info", *, tell: str = "", progress: bool = False
    ) -> None:
        self.condition(type_, "False", reason, message, severity=severity, tell=tell, progress=progress)

    @property
    def generation(self) -> None:
        return None

    def summed_up(self) -> list[Object]:
        return summary(self.conditions, now=self.now, first=self.stated)

    def paused(self) -> Object:
        """The status of an object that is left as it is: all else that it says still stands."""
        self.true(PAUSED, message="Left as it is until the annotation cluster.x-k8s.io/paused is removed")
        return {"conditions": self.conditions}
