"""The decision while it is being made: the addon's conditions, and what else its status is to say."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from shared.api.conditions import get_condition, remove_condition, set_condition, summary
from shared.kube import Object, dig
from shared.runtime import Notice


@dataclass
class Verdict:
    addon: Object
    now: datetime
    conditions: list[Object] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.conditions = list(dig(self.addon, "status.conditions", []))

    def true(self, type_: str) -> None:
        self.conditions = set_condition(self.conditions, type_, "True", "", "", now=self.now)

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
        condition = get_condition(self.conditions, type_) or {}
        try:
            return (self.now - datetime.fromisoformat(condition["lastTransitionTime"])).total_seconds()
        except (KeyError, ValueError):
            return 0.0

    def status(self, *, ready: bool, **fields: object) -> Object:
        return {"conditions": summary(self.conditions, now=self.now), "ready": ready, **fields}

    def _said(self, type_: str, reason: str) -> bool:
        before = get_condition(dig(self.addon, "status.conditions", []), type_)
        return bool(before and before.get("status") == "False" and before.get("reason") == reason)
