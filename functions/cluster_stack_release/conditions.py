"""The condition types of a ClusterStackRelease, and the decision about failures that need a user."""

from __future__ import annotations

from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.effects import Effect, ensure_finalizer
from shared.kube import Object
from shared.releases.missing_assets import DOWNLOADED
from shared.releases.usage import FINALIZER
from shared.runtime import Decision
from shared.runtime.status import PAUSED, V1Beta1StatusBuilder

PROVIDER = "ProviderClusterStackReleaseReady"
APPLIED, DELETED = "HelmChartApplied", "HelmChartDeleted"

PREREQUISITES = (DOWNLOADED, PROVIDER)
"""Conditions that are True before objects are applied."""

# Seconds until the next reconciliation.
PROVIDER_RETRY = 10.0
PARTIAL_RETRY = 20.0
FAILURE_RETRY = 60.0
"""The interval for failures that only a user can fix: attempts are rare, but do not end."""


def set_applied(builder: V1Beta1StatusBuilder) -> None:
    """Sets the conditions of a release all of whose objects are applied."""
    for condition in (*PREREQUISITES, APPLIED):
        builder.set_true(condition)
    builder.remove(PAUSED)


def decide_failure(
    builder: V1Beta1StatusBuilder,
    condition: str,
    reason: str,
    message: str,
    *,
    requeue_after: float | None = FAILURE_RETRY,
    fields: Object | None = None,
) -> Decision:
    """Reports a failure in a condition and an event; `fields` are further fields of the status."""
    builder.set_false(condition, reason, message, "Error", event_type="Warning")
    effects = finalizer_effects(builder)
    return builder.decision(*effects, requeue_after=requeue_after, message=message, **fields or {})


def finalizer_effects(builder: V1Beta1StatusBuilder) -> tuple[Effect, ...]:
    """Returns the effect that adds the finalizer, if it is missing."""
    return ensure_finalizer(CLUSTER_STACK_RELEASE, builder.obj, FINALIZER)
