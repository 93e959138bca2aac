"""Reports the outcome of a sync or of pruning; any other decision is reported unchanged."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.applier import inventory
from shared.applier.outcome import SyncIncomplete, SyncOutcome
from shared.applier.sync import Sync
from shared.effects import Results
from shared.kube import deleting, dig
from shared.runtime import Decision, KubernetesEvent
from shared.runtime.status import PAUSED

from .conditions import APPLIED, DELETED, PARTIAL_RETRY, PREREQUISITES, ReleaseStatusBuilder, set_applied
from .observe import Assets, Observed


def report(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision:
    """Returns the decision with the status that reports its sync, if it has one. Reports no other failure."""
    release, syncs = observed.release, results.of(Sync)
    if release is not None and isinstance(results.error, SyncIncomplete):
        return _incomplete(decision, ReleaseStatusBuilder(release, now), results.error)
    if release is None or not syncs:
        return decision
    if deleting(release):
        status = (decision.status or {}) | {"resources": inventory.dump(syncs[-1].entries)}
        return replace(decision, status=status)
    return _applied(decision, ReleaseStatusBuilder(release, now), observed, syncs[-1])


def _applied(decision: Decision, builder: ReleaseStatusBuilder, observed: Observed, outcome: SyncOutcome) -> Decision:
    """Reports that all objects are applied, and the release is ready."""
    set_applied(builder)
    message = f"{observed.name}: {outcome.summary}"
    first = dig(builder.obj, "status.ready") is not True
    return replace(
        decision,
        status=builder.status(
            ready=True,
            resources=inventory.dump(outcome.entries),
            kubernetesVersion=observed.assets.kubernetes if isinstance(observed.assets, Assets) else None,
        ),
        kubernetes_events=(KubernetesEvent("ClusterStackReleaseReady", message),) if first else (),
        message=message,
    )


def _incomplete(decision: Decision, builder: ReleaseStatusBuilder, incomplete: SyncIncomplete) -> Decision:
    """Reports which objects could not be applied or deleted."""
    message = str(incomplete)
    builder.remove(PAUSED)
    if deleting(builder.obj):
        builder.set_false(DELETED, "FailedToDeleteObjects", message, "Warning", event_type="Warning")
    else:
        for prerequisite in PREREQUISITES:
            builder.set_true(prerequisite)
        builder.set_false(APPLIED, "ObjectsApplyingOngoing", message, "Warning", event_type="Warning")
    return replace(
        decision,
        status=builder.status(resources=inventory.dump(incomplete.outcome.entries)),
        kubernetes_events=tuple(builder.kubernetes_events),
        requeue_after=PARTIAL_RETRY,
        message=message,
        reports=incomplete,
    )
