"""The condition types of a ClusterStackRelease, and the decision about failures that need a user."""

from __future__ import annotations

from typing import Final, Literal

from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.effects import Effect, ensure_finalizer
from shared.kube import Object
from shared.releases.missing_assets import DOWNLOADED
from shared.releases.usage import FINALIZER
from shared.runtime import Decision
from shared.runtime.status import PAUSED, V1Beta1StatusBuilder

PROVIDER: Final = "ProviderClusterStackReleaseReady"
APPLIED: Final = "HelmChartApplied"
DELETED: Final = "HelmChartDeleted"
ReleaseCondition = Literal[
    "ClusterStackReleaseDownloaded",
    "ProviderClusterStackReleaseReady",
    "HelmChartApplied",
    "HelmChartDeleted",
    "Paused",
]
ReleaseStatusBuilder = V1Beta1StatusBuilder[ReleaseCondition]

PREREQUISITES: tuple[ReleaseCondition, ...] = (DOWNLOADED, PROVIDER)
"""Conditions that are True before objects are applied."""

# Seconds until the next reconciliation.
PROVIDER_RETRY = 10.0
PARTIAL_RETRY = 20.0
FAILURE_RETRY = 60.0
"""The interval for failures that only a user can fix: attempts are rare, but do not end."""


def set_applied(builder: ReleaseStatusBuilder) -> None:
    """Sets the conditions of a release all of whose objects are applied."""
    for condition in (*PREREQUISITES, APPLIED):
        builder.set_true(condition)
    builder.remove(PAUSED)


def decide_failure(
    builder: ReleaseStatusBuilder,
    condition: ReleaseCondition,
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


def finalizer_effects(builder: ReleaseStatusBuilder) -> tuple[Effect, ...]:
    """Returns the effect that adds the finalizer, if it is missing."""
    return ensure_finalizer(CLUSTER_STACK_RELEASE, builder.obj, FINALIZER)
