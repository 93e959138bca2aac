"""The conditions of a provider: each phase owns some of them, and `Ready` summarises all.

`Ready` is True if the present spec has passed its checks, is installed, and its workloads run. Conditions and metadata
also show when no phase has anything to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from shared.api import cluster as cluster_api
from shared.api.conditions import READY, get_condition, set_condition
from shared.kube import Object, deleting, dig
from shared.runtime.status import StatusBuilder

PREFLIGHT_CHECK_PASSED: Final = "PreflightCheckPassed"
PROVIDER_INSTALLED: Final = "ProviderInstalled"
PROVIDER_UPGRADED: Final = "ProviderUpgraded"
COMPONENTS_AVAILABLE: Final = "ComponentsAvailable"
DELETING: Final = "Deleting"
ProviderCondition = Literal[
    "PreflightCheckPassed", "ProviderInstalled", "ProviderUpgraded", "ComponentsAvailable", "Deleting"
]

_DECISIVE = (PREFLIGHT_CHECK_PASSED, PROVIDER_INSTALLED, COMPONENTS_AVAILABLE)
"""The conditions that `Ready` depends on, besides a failed upgrade."""

_IN_PROGRESS = ("Installing", "Upgrading", "WaitingForBackends")
"""The reasons of a condition that is False because an installation has begun and has not ended."""


def passed_preflight(provider: Object) -> bool:
    """Returns whether the provider's present generation has passed the checks of `provider_preflight`.

    Every later phase checks this first, because a late event may start the phase for a spec that was not checked.
    """
    condition = get_condition(dig(provider, "status.conditions"), PREFLIGHT_CHECK_PASSED) or {}
    return condition.get("status") == "True" and condition.get("observedGeneration") == dig(
        provider, "metadata.generation"
    )


def in_progress(provider: Object) -> bool:
    """Returns whether an installation has begun and has neither succeeded nor failed."""
    condition = get_condition(dig(provider, "status.conditions"), PROVIDER_INSTALLED) or {}
    return condition.get("status") == "False" and condition.get("reason") in _IN_PROGRESS


def awaits_workloads(provider: Mapping[str, Any]) -> bool:
    """Returns whether an update has changed workloads of available components, and they have not been checked since."""
    condition = get_condition(dig(provider, "status.conditions"), COMPONENTS_AVAILABLE) or {}
    return condition.get("status") == "Unknown"


class ProviderStatusBuilder(StatusBuilder[ProviderCondition]):
    """Builds the status of a provider; `Ready` follows from the conditions of all phases."""

    def remove_outdated(self, *types: ProviderCondition) -> None:
        """Removes each of these conditions that is not True and is about another generation of the spec."""
        for type_ in types:
            condition = get_condition(self.conditions, type_) or {}
            if condition.get("status") != "True" and condition.get("observedGeneration") != self.generation:
                self.remove(type_)

    def summarized(self) -> list[Object]:
        """Returns the conditions with `Ready` set from the others."""
        status, reason, message = _ready(self.conditions, self.generation)
        return set_condition(
            self.conditions, READY, status, reason, message, now=self.now, observed_generation=self.generation
        )


def _ready(conditions: list[Object], generation: int | None) -> tuple[str, str, str]:
    """Returns status, reason and message of `Ready`, from the deletion or from the first incomplete phase.

    A condition that is True for an earlier spec does not count for the present spec.
    """
    deletion = get_condition(conditions, DELETING)
    if deletion is not None and deletion.get("status") == "True":
        return "False", deletion.get("reason") or DELETING, deletion.get("message") or ""
    upgraded = get_condition(conditions, PROVIDER_UPGRADED)
    decisive = [(name, get_condition(conditions, name)) for name in _DECISIVE]
    if upgraded is not None and upgraded.get("status") == "False":
        decisive.insert(1, (PROVIDER_UPGRADED, upgraded))
    for name, condition in decisive:
        if condition is not None and condition.get("status") != "True":
            return "False", condition.get("reason") or "NotReady", condition.get("message") or ""
        if condition is None or condition.get("observedGeneration", generation) != generation:
            return "Unknown", "InProgress", f"{name} is not known yet"
    return "True", "Ready", ""


def why_not_due(provider: Object | None, *, checked: bool = True) -> str:
    """Returns why a phase does nothing for the provider; empty if it may have work.

    Args:
        provider: The provider object; None if it does not exist.
        checked: Whether the phase needs a spec that has passed the checks of `provider_preflight`.
    """
    if provider is None or deleting(provider):
        return "the provider does not exist or is being deleted"
    if cluster_api.is_paused(provider):
        return "paused"
    if checked and not passed_preflight(provider):
        return "the preflight checks have not passed"
    return ""
