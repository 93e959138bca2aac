"""Reports the result of a rollout or of a readiness check; any other decision is reported unchanged."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared import metrics
from shared.addons import stored_values
from shared.addons.context import AwaitingReadiness, ReconcileContext, ReleaseContext, RollbackContext
from shared.applier import inventory
from shared.applier.outcome import RolloutIncomplete, RolloutOutcome
from shared.applier.rollout import Rollout
from shared.effects import Results
from shared.kube import ApiError, dig
from shared.releases.missing_assets import DOWNLOADED
from shared.releases.naming import ReleaseName
from shared.runtime import Decision
from shared.runtime.status import V1Beta1StatusBuilder

from . import readiness, rollback, rollout, stages
from .observe import Observed
from .status import GENERATED_VALUES_KEPT, AddonStatusBuilder
from .waits import BROKEN_RETRY, CLUSTER_RETRY, PARTIAL_RETRY, READY_RETRY


def report(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision:
    """Returns the decision with the status and the events that report the results of its effects."""
    builder, found = _builder(observed, now), observed.finding
    if builder is None:
        return decision
    if isinstance(found, AwaitingReadiness):
        return readiness.report_recheck(builder, found, decision, results)
    if not isinstance(found, (RollbackContext, ReleaseContext)) or not (outcomes := results.of(Rollout)):
        return decision
    _report_values(builder, found, decision)
    outcome = outcomes[-1]
    _record_events(builder, outcome)
    if isinstance(found, RollbackContext):
        return rollback.report_rolled_back(builder, found, decision, outcome)
    if found.position is not None:
        return stages.report_stage(builder, found, found.position, decision, outcome)
    return rollout.report_applied(builder, found, decision, results, outcome)


def report_failure(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision | None:
    """Reports objects that could not be applied, and a workload API server that does not answer; nothing else."""
    builder, found = _builder(observed, now), observed.finding
    if builder is None:
        return None
    if isinstance(found, AwaitingReadiness) and isinstance(results.error, ApiError):
        return readiness.report_unreachable(builder, decision, results.error)
    if isinstance(found, (RollbackContext, ReleaseContext)) and isinstance(results.error, RolloutIncomplete):
        _report_values(builder, found, decision)
        return _report_incomplete(builder, found, decision, results.error)
    return None


def _builder(observed: Observed, now: datetime) -> AddonStatusBuilder | None:
    """Returns the builder for a decision that got as far as the workload cluster; None for any other."""
    found = observed.finding
    if (
        observed.addon is None
        or observed.cluster is None
        or not isinstance(found, (AwaitingReadiness, RollbackContext, ReleaseContext))
    ):
        return None
    builder = AddonStatusBuilder.of(observed.addon, observed.cluster, now)
    builder.set_true("ClusterReady")
    if not isinstance(found, RollbackContext):
        builder.set_true(DOWNLOADED)
    return builder


def _report_values(builder: AddonStatusBuilder, context: ReconcileContext, decision: Decision) -> None:
    save = next((effect for effect in decision.effects if isinstance(effect, stored_values.SaveValues)), None)
    report_generated_values(builder, context.name if isinstance(context, ReleaseContext) else None, save)


def _report_incomplete(
    builder: AddonStatusBuilder, context: ReconcileContext, decision: Decision, incomplete: RolloutIncomplete
) -> Decision:
    """Reports a rollout that has stopped: objects failed, or it waits for a wave of objects to complete."""
    outcome, message = incomplete.outcome, f"{context}: {incomplete}"
    _record_events(builder, outcome)
    if incomplete.waiting:
        seconds = READY_RETRY
        builder.set_false("HelmChartApplied", "ObjectsApplyingOngoing", message, event_type="Normal", progress=True)
        if builder.seconds_since("HelmChartApplied") > context.policy.wait_timeout:
            message = f"{context}: not complete after {context.policy.wait_timeout:g} s: {incomplete}"
            builder.set_false("HelmChartApplied", "ObjectsNotReady", message, "Warning", event_type="Warning")
            seconds = BROKEN_RETRY
    else:
        builder.set_false("HelmChartApplied", "FailedToApplyObjects", message, event_type="Warning")
        seconds = CLUSTER_RETRY if incomplete.unavailable else PARTIAL_RETRY
    return replace(
        decision,
        status=builder.status(ready=False, resources=inventory.dump(outcome.entries)),
        kubernetes_events=tuple(builder.kubernetes_events),
        requeue_after=seconds,
        message=message,
    )


def _record_events(builder: AddonStatusBuilder, outcome: RolloutOutcome) -> None:
    """Updates metrics, and adds events about kept objects, conflicts and drift."""
    metrics.OBJECTS.labels(outcome="applied").inc(len(outcome.written))
    metrics.OBJECTS.labels(outcome="pruned").inc(len(outcome.pruned))
    metrics.OBJECTS.labels(outcome="failed").inc(len(outcome.failures))
    written = {entry.identity for entry in outcome.written}
    metrics.DRIFT.inc(sum(drift.entry.identity in written for drift in outcome.drift))
    if outcome.kept:
        left = ", ".join(str(entry) for entry in outcome.kept[:5])
        builder.add_event(
            "ObjectsKept", f"not pruned, since they belong to other owners or are annotated to be kept: {left}"
        )
    if outcome.conflicts:
        conflicts = "; ".join(f"{entry}: {conflict}" for entry, conflict in outcome.conflicts[:5])
        builder.add_event("FieldConflicts", f"fields that other managers held: {conflicts}")
    if outcome.drift and outcome.listed_drift != dig(builder.obj, "status.drift"):
        shown = "; ".join(str(drift) for drift in outcome.drift[:5])
        more = f"; and {len(outcome.drift) - 5} more" if len(outcome.drift) > 5 else ""
        builder.add_event("DriftFound", f"changed in the workload cluster: {shown}{more}", "Warning")


def report_generated_values(
    builder: V1Beta1StatusBuilder, name: ReleaseName | None, effect: stored_values.SaveValues | None
) -> None:
    """Reports which fields are generated, without their values."""
    if effect is None or not effect.fields:
        builder.remove(GENERATED_VALUES_KEPT)
        return
    if effect.too_large:
        differ = f"{stored_values.count_fields(effect.fields)} each time that the release is rendered"
        message = f"{name}: {differ}, and the values do not fit into a Secret: each rollout writes new values"
        builder.set(GENERATED_VALUES_KEPT, "False", "TooLarge", message, severity="Warning", event_type="Warning")
        return
    builder.set_true(
        GENERATED_VALUES_KEPT,
        "RenderNotRepeatable",
        f"{name}: {stored_values.describe_fields(effect.fields)}",
        event_type="Normal",
    )
