"""Sets the condition `ComponentsAvailable`, and starts the installation again if workloads were deleted."""

from __future__ import annotations

from datetime import datetime

from shared.api import provider as provider_api
from shared.api.conditions import abridged, get_condition
from shared.effects import Results
from shared.kube import deleting
from shared.providers import phases
from shared.providers.status import COMPONENTS_AVAILABLE, ProviderStatusBuilder
from shared.runtime import Decision

from .observe import Observed

RETRY = 15.0
"""Seconds until a provider with a problem is checked again, as events of its workloads may be lost."""


def decide(observed: Observed, now: datetime, _results: Results | None = None) -> Decision:
    """Decides the condition: True, or False with the first kind of problem. Reinstalls missing workloads."""
    provider = observed.provider
    if provider is None or deleting(provider):
        return Decision(message="the provider does not exist or is being deleted")
    if observed.resumable:
        # This event may be late or duplicated, so `provider_install` decides whether there is something to resume.
        step = phases.completion_event(phases.FETCHED, provider, resync=False)
        return Decision(reply=step, message="the installation is resumed")
    if not observed.installed:
        return Decision(message="not installed yet")
    builder = ProviderStatusBuilder(provider, now)
    if not observed.wait:
        message = "the workloads are not checked, because the annotation capi-functions.dev/wait disables the check"
        builder.set_true(COMPONENTS_AVAILABLE, "NotAwaited", message)
        return builder.decision(message=message)
    for reason, problems in (
        ("WorkloadsMissing", observed.missing),
        ("WorkloadsUnavailable", observed.unavailable),
        ("WebhooksNotAnswering", observed.unanswered),
        ("KindsNotServed", observed.unserved),
    ):
        if problems:
            message = abridged(problems, 3)
            builder.set_false(COMPONENTS_AVAILABLE, reason, message, event_type="Warning", progress=True)
            reinstall = phases.completion_event(phases.CHECKED, provider, resync=True) if observed.missing else None
            return builder.decision(requeue_after=RETRY, reply=reinstall, message=message)
    message = f"The components of {provider_api.installed_version(provider)} are available"
    # `provider_install` has recorded an event about the installation; another is due only if a problem was resolved.
    before = get_condition(builder.initial, COMPONENTS_AVAILABLE) or {}
    event_type = "Normal" if before.get("status") == "False" else ""
    builder.set_true(COMPONENTS_AVAILABLE, "ComponentsAvailable", message, event_type=event_type)
    return builder.decision(message=message)
