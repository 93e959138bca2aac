"""A provider's conditions while a phase decides: each phase has its own, and `Ready` follows from all of them.

`Ready` is True where what is asked for was checked, installed, and works; so that waiting for it tells the truth.
"""

from __future__ import annotations

from shared.api.conditions import READY, get_condition, set_condition
from shared.kube import Object, dig
from shared.runtime.status import StatusBuilder

CHECKED = "PreflightCheckPassed"
INSTALLED = "ProviderInstalled"
UPGRADED = "ProviderUpgraded"
AVAILABLE = "ComponentsAvailable"
DELETING = "Deleting"

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


class ProviderStatusBuilder(StatusBuilder):
    """Builds the status of a provider; `Ready` follows from the conditions of all phases."""

    def remove_outdated(self, *types: str) -> None:
        """Removes those of these conditions that are not True and are about another generation of the spec."""
        for type_ in types:
            condition = get_condition(self.conditions, type_) or {}
            if condition.get("status") != "True" and condition.get("observedGeneration") != self.generation:
                self.remove(type_)

    def summarized(self) -> list[Object]:
        status, reason, message = _ready(self.conditions)
        return set_condition(
            self.conditions, READY, status, reason, message, now=self.now, observed_generation=self.generation
        )


def _ready(conditions: list[Object]) -> tuple[str, str, str]:
    """Status, reason and message of `Ready`: those of the first phase that is not through, or of the deletion."""
    leaving = get_condition(conditions, DELETING)
    if leaving is not None and leaving.get("status") == "True":
        return "False", leaving.get("reason") or DELETING, leaving.get("message") or ""
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
