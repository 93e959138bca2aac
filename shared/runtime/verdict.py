"""A decision while it is being made: the object's conditions, and the events that go with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from ..api.conditions import get_condition, remove_condition, seconds_since, set_condition, summary
from ..kube import Object, dig
from .notice import Notice

PAUSED = "Paused"


@dataclass
class Verdict:
    """Starts from what `obj` says now; in Cluster API's v1beta1 shape, `Ready` telling of all others."""

    obj: Object
    now: datetime
    conditions: list[Object] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.conditions = list(dig(self.obj, "status.conditions", []))

    def true(self, type_: str, message: str = "") -> None:
        self.conditions = set_condition(self.conditions, type_, "True", "", message, now=self.now)

    def false(self, type_: str, reason: str, message: str, severity: str = "Info", *, tell: str = "") -> None:
        """With `tell`, an event of that type says so once: not again while the reason stays the same."""
        if tell and not self._said(type_, reason):
            self.notices.append(Notice(reason, message, tell))
        self.conditions = set_condition(
            self.conditions, type_, "False", reason, message, now=self.now, severity=severity
        )

    def drop(self, *types: str) -> None:
        for type_ in types:
            self.conditions = remove_condition(self.conditions, type_)

    def since(self, type_: str) -> float:
        """Seconds since the condition became what it is; 0 where it is new."""
        return seconds_since(self.conditions, type_, self.now)

    def status(self, **fields: object) -> Object:
        return {"conditions": summary(self.conditions, now=self.now), **fields}

    def paused(self) -> Object:
        """The status of an object that is left as it is: all else that it says still stands."""
        self.true(PAUSED, "Left as it is until the annotation cluster.x-k8s.io/paused is removed")
        return {"conditions": self.conditions}

    def _said(self, type_: str, reason: str) -> bool:
        before = get_condition(dig(self.obj, "status.conditions", []), type_) or {}
        return before.get("status") == "False" and before.get("reason") == reason
