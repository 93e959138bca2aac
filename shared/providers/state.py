"""A provider's conditions while a phase decides: each phase has its own, and `Ready` follows from all of them.

`Ready` is True where what is asked for was checked, installed, and works; so that waiting for it tells the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shared.api.conditions import READY, get_condition, is_true, remove_condition, seconds_since, set_condition
from shared.kube import Object, dig
from shared.runtime import Notice

CHECKED = "PreflightCheckPassed"
INSTALLED = "ProviderInstalled"
UPGRADED = "ProviderUpgraded"
AVAILABLE = "ComponentsAvailable"

_DECISIVE = (CHECKED, INSTALLED, AVAILABLE)
"""What `Ready` depends on; besides, an upgrade that failed."""

_UNDER_WAY = ("Installing", "Upgrading", "WaitingForBackends")


def checked(provider: Object) -> bool:
    """Whether the provider passed its checks as it stands. Events that come late are no way around them."""
    condition = get_condition(dig(provider, "status.conditions"), CHECKED) or {}
    return condition.get("status") == "True" and condition.get("observedGeneration") == dig(
        provider, "metadata.generation"
    )


def under_way(provider: Object) -> bool:
    """Whether an installation has begun that is neither through nor refused."""
    condition = get_condition(dig(provider, "status.conditions"), INSTALLED) or {}
    return condition.get("status") == "False" and condition.get("reason") in _UNDER_WAY


@dataclass
class State:
    """Starts from what the provider says now."""

    provider: Object
    now: datetime
    conditions: list[Object] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.conditions = list(dig(self.provider, "status.conditions", []))

    def true(self, type_: str, reason: str, message: str = "", *, tell: bool = False) -> None:
        self._set(type_, "True", reason, message, "Normal" if tell else "")

    def false(self, type_: str, reason: str, message: str, *, tell: str = "Warning") -> None:
        """`tell` is the type of the event that says so, once; empty for none."""
        self._set(type_, "False", reason, message, tell)

    def is_true(self, type_: str) -> bool:
        return is_true(self.conditions, type_)

    def drop(self, type_: str) -> None:
        self.conditions = remove_condition(self.conditions, type_)

    def since(self, type_: str) -> float:
        """Seconds since the condition became what it is; 0 where there is none."""
        return seconds_since(self.conditions, type_, self.now)

    def status(self, **fields: Any) -> Object:
        """The patch: all conditions, `Ready` among them, and these fields."""
        return {"conditions": self._with_ready(), **fields}

    def _set(self, type_: str, status: str, reason: str, message: str, tell: str) -> None:
        before = get_condition(dig(self.provider, "status.conditions", []), type_) or {}
        if tell and (before.get("status"), before.get("reason")) != (status, reason):
            self.notices.append(Notice(reason, message or reason, tell))
        self.conditions = set_condition(
            self.conditions,
            type_,
            status,
            reason,
            message,
            now=self.now,
            observed_generation=dig(self.provider, "metadata.generation"),
        )

    def _with_ready(self) -> list[Object]:
        status, reason, message = _summed_up(self.conditions)
        generation = dig(self.provider, "metadata.generation")
        return set_condition(
            self.conditions, READY, status, reason, message, now=self.now, observed_generation=generation
        )


def _summed_up(conditions: list[Object]) -> tuple[str, str, str]:
    """Status, reason and message of `Ready`: those of the first phase that is not through."""
    upgraded = get_condition(conditions, UPGRADED)
    decisive = [(name, get_condition(conditions, name)) for name in _DECISIVE]
    if upgraded is not None and upgraded.get("status") == "False":
        decisive.insert(1, (UPGRADED, upgraded))
    for name, condition in decisive:
        if condition is None:
            return "Unknown", "InProgress", f"{name} is not known yet"
        if condition.get("status") != "True":
            return "False", condition.get("reason") or "NotReady", condition.get("message") or ""
    return "True", "Ready", ""
