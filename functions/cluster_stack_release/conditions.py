"""The names of a ClusterStackRelease's conditions, and the answer to what only a person can mend."""

from __future__ import annotations

from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.effects import Effect, ensure_finalizer
from shared.kube import Object
from shared.releases.usage import FINALIZER
from shared.runtime import Decision
from shared.runtime.verdict import Verdict

PROVIDER = "ProviderClusterStackReleaseReady"
APPLIED, DELETED = "HelmChartApplied", "HelmChartDeleted"

# Seconds until the next look.
PROVIDER_RETRY = 10.0
PARTIAL_RETRY = 20.0
BROKEN_RETRY = 60.0
"""For what only a person can mend: slow, but never given up."""


def broken(
    verdict: Verdict,
    condition: str,
    reason: str,
    message: str,
    *,
    requeue: float | None = BROKEN_RETRY,
    facts: Object | None = None,
) -> Decision:
    verdict.false(condition, reason, message, "Error", tell="Warning")
    return Decision(
        effects=finalizer(verdict),
        status=verdict.status(**facts or {}),
        notices=tuple(verdict.notices),
        requeue=requeue,
        message=message,
    )


def finalizer(verdict: Verdict) -> tuple[Effect, ...]:
    return ensure_finalizer(CLUSTER_STACK_RELEASE, verdict.obj, FINALIZER)
