"""From what does not work to the condition that says so. What somebody has taken away is put back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared.kube import deleting
from shared.providers import phases
from shared.providers.status import COMPONENTS_AVAILABLE, ProviderStatusBuilder
from shared.runtime import Decision

from .observe import Observed

RETRY = 15.0
"""Seconds until the next look, should no event tell of a change."""


def decide(observed: Observed, now: datetime) -> Decision:
    provider = observed.provider
    if provider is None or deleting(provider):
        return Decision(message="the provider is gone, or going")
    if observed.continues:
        # Events come late and twice: it finds out itself whether it can go on.
        return Decision(
            reply=phases.next_step(phases.FETCHED, provider, resync=False), message="the installation goes on"
        )
    if not observed.installed:
        return Decision(message="not installed yet")
    builder = ProviderStatusBuilder(provider, now)
    if not observed.awaited:
        builder.set_true(
            COMPONENTS_AVAILABLE, "NotAwaited", "its workloads are not looked at, as its annotation wants it"
        )
        return Decision(status=builder.status(), message="nothing is waited for")
    for reason, problems in (
        ("WorkloadsMissing", observed.missing),
        ("WorkloadsUnavailable", observed.unavailable),
        ("WebhooksNotAnswering", observed.unanswered),
        ("KindsNotServed", observed.unserved),
    ):
        if problems:
            message = _told(problems)
            builder.set_false(COMPONENTS_AVAILABLE, reason, message, event_type="Warning")
            again = phases.next_step(phases.CHECKED, provider, resync=True) if observed.missing else None
            return Decision(
                status=builder.status(),
                kubernetes_events=tuple(builder.kubernetes_events),
                requeue_after=RETRY,
                reply=again,
                message=message,
            )
    builder.set_true(COMPONENTS_AVAILABLE, "ComponentsAvailable", event_type="Normal")
    return Decision(
        status=builder.status(), kubernetes_events=tuple(builder.kubernetes_events), message="everything works"
    )


def _told(problems: Sequence[str]) -> str:
    more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
    return "; ".join(problems[:3]) + more
