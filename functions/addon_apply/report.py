"""Reports the result of a sync, in the decision that follows its effects."""

from __future__ import annotations

from dataclasses import replace

from shared.addons import stored_values
from shared.addons.context import ReconcileContext, ReleaseContext, RemovalContext, RollbackContext
from shared.api.conditions import abridged
from shared.api.names import kubeconfig_secret_of
from shared.applier import inventory
from shared.applier.inventory import InventoryEntry
from shared.applier.outcome import SyncIncomplete, SyncOutcome
from shared.applier.policy import PREFIX
from shared.applier.sync import Sync
from shared.effects import Results
from shared.kube import Key, dig, key_of
from shared.releases.naming import ReleaseName
from shared.runtime import Decision

from . import stages, sync
from .status import BROKEN_RETRY, CLUSTER_RETRY, GENERATED_VALUES_KEPT, PARTIAL_RETRY, READY_RETRY, AddonStatusBuilder


def report(builder: AddonStatusBuilder, context: ReconcileContext, results: Results | None) -> Decision | None:
    """Returns the decision that reports a sync that is complete or has stopped; None without results of a sync.

    Does not report other failures.
    """
    if results is None:
        return None
    if isinstance(results.error, SyncIncomplete):
        _report_values(builder, context, results)
        return replace(_report_incomplete(builder, context, results.error), reports=results.error)
    if not (outcomes := results.of(Sync)):
        return None
    _report_values(builder, context, results)
    outcome = outcomes[-1]
    _add_events(builder, outcome)
    if isinstance(context, RemovalContext):
        return sync.report_removed(builder, outcome)
    if isinstance(context, RollbackContext):
        return sync.report_rolled_back(builder, context, outcome)
    if isinstance(context, ReleaseContext) and context.position is not None:
        return stages.report_stage(builder, context, context.position, outcome)
    return sync.report_applied(builder, context, results, outcome)


def _report_values(builder: AddonStatusBuilder, context: ReconcileContext, results: Results) -> None:
    save = next((effect for effect, _ in results.executed if isinstance(effect, stored_values.SaveValues)), None)
    report_generated_values(builder, context.name if isinstance(context, ReleaseContext) else None, save)


def _report_incomplete(builder: AddonStatusBuilder, context: ReconcileContext, incomplete: SyncIncomplete) -> Decision:
    """Reports a sync that has stopped: objects failed, or it waits for a wave of objects to complete."""
    outcome, message = incomplete.outcome, f"{context}: {incomplete}"
    _add_events(builder, outcome)
    if incomplete.waiting:
        seconds, release = READY_RETRY, _how_to_release(outcome.not_ready[0])
        if not context.policy.wait:
            message += release
        builder.set_false("HelmChartApplied", "ObjectsApplyingOngoing", message, event_type="Normal", progress=True)
        if builder.seconds_since("HelmChartApplied") > context.policy.wait_timeout:
            message = f"{context}: not complete after {context.policy.wait_timeout:g} s: {incomplete}{release}"
            builder.set_false("HelmChartApplied", "ObjectsNotReady", message, "Warning", event_type="Warning")
            seconds = BROKEN_RETRY
    else:
        if " is forbidden: User " in message:
            cluster = Key(key_of(context.addon).namespace, dig(context.addon, "spec.clusterRef.name", ""))
            secret = kubeconfig_secret_of(cluster)
            message = f"{message}; Secret {secret} has the credentials of this user"
        builder.set_false("HelmChartApplied", "FailedToApplyObjects", message, event_type="Warning")
        seconds = CLUSTER_RETRY if incomplete.unavailable else PARTIAL_RETRY
    return builder.decision(
        requeue_after=seconds, message=message, ready=False, resources=inventory.dump(outcome.entries)
    )


def _how_to_release(waiting: InventoryEntry) -> str:
    """Returns what lets a sync go on that waits for this hook; empty for an object that is no Job."""
    if waiting.kind != "Job":
        return ""
    command = f"kubectl -n {waiting.namespace} patch job {waiting.name} --type merge"
    patch = '{"spec":{"suspend":true}}'
    return (
        f"; a rollout waits for hooks even if {PREFIX}wait is false; to run the Job again, delete it; to continue "
        f"without the Job, suspend it in the workload cluster: {command} -p '{patch}'"
    )


def _add_events(builder: AddonStatusBuilder, outcome: SyncOutcome) -> None:
    """Adds Kubernetes events about kept objects, conflicts and drift."""
    if outcome.kept:
        kept = ", ".join(str(entry) for entry in outcome.kept[:5])
        builder.add_event(
            "ObjectsKept",
            f"these objects were not pruned, because they belong to other owners or are annotated to be kept: {kept}",
        )
    if outcome.conflicts:
        conflicts = "; ".join(f"{entry}: {conflict}" for entry, conflict in outcome.conflicts[:5])
        builder.add_event("FieldConflicts", f"these applied fields belonged to other field managers: {conflicts}")
    if outcome.drift and outcome.listed_drift != dig(builder.obj, "status.drift"):
        shown = abridged([*map(str, outcome.drift)], 5)
        builder.add_event("DriftFound", f"these objects have changed in the workload cluster: {shown}", "Warning")


def report_generated_values(
    builder: AddonStatusBuilder, name: ReleaseName | None, effect: stored_values.SaveValues | None
) -> None:
    """Reports which fields are generated, without their values."""
    if effect is None or not effect.fields:
        builder.remove(GENERATED_VALUES_KEPT)
        return
    if effect.too_large:
        differ = f"{stored_values.fields_differ(effect.fields)} each time that the release is rendered"
        message = f"{name}: {differ}, and the values do not fit into a Secret, so each rollout writes new values"
        builder.set(GENERATED_VALUES_KEPT, "False", "TooLarge", message, severity="Warning", event_type="Warning")
        return
    builder.set_true(
        GENERATED_VALUES_KEPT,
        "RenderNotRepeatable",
        f"{name}: {stored_values.describe_fields(effect.fields)}",
        event_type="Normal",
    )
