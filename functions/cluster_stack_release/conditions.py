"""The names of a ClusterStackRelease's conditions, and the answer to what only a person can mend."""

from __future__ import annotations

from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.effects import Effect, ensure_finalizer
from shared.kube import Object
from shared.releases.usage import FINALIZER
from shared.runtime import Decision
from shared.runtime.status import V1Beta1StatusBuilder

PROVIDER = "ProviderClusterStackReleaseReady"
APPLIED, DELETED = "HelmChartApplied", "HelmChartDeleted"

# Seconds until the next look.
PROVIDER_RETRY = 10.0
PARTIAL_RETRY = 20.0
BROKEN_RETRY = 60.0
"""For what only a person can mend: slow, but never given up."""


def broken(
    builder: V1Beta1StatusBuilder,
    condition: str,
    reason: str,
    message: str,
    *,
    requeue_after: float | None = BROKEN_RETRY,
    facts: Object | None = None,
) -> Decision:
    builder.set_false(condition, reason, message, "Error", event_type="Warning")
    return Decision(
        effects=finalizer(builder),
        status=builder.status(**facts or {}),
        kubernetes_events=tuple(builder.kubernetes_events),
        requeue_after=requeue_after,
        message=message,
    )


def finalizer(builder: V1Beta1StatusBuilder) -> tuple[Effect, ...]:
    return ensure_finalizer(CLUSTER_STACK_RELEASE, builder.obj, FINALIZER)
