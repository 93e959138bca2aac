"""Plans the sync of a release's objects, and reports its outcome; the inventory is written before the sync starts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from shared.api.conditions import counted
from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.applier import inventory
from shared.applier.connection import ClusterConnection
from shared.applier.desired import kinds_defined_by
from shared.applier.outcome import SyncIncomplete, SyncOutcome
from shared.applier.policy import Policy
from shared.applier.sync import Sync
from shared.effects import Effect, Results, write_ahead
from shared.kube import Object, deleting, dig, key_of
from shared.manifests import Identity
from shared.runtime import Decision, KubernetesEvent
from shared.runtime.status import PAUSED

from .conditions import (
    APPLIED,
    DELETED,
    FAILURE_RETRY,
    PARTIAL_RETRY,
    PREREQUISITES,
    ReleaseStatusBuilder,
    decide_failure,
    finalizer_effects,
    set_applied,
)
from .observe import Assets, Observed
from .ownership import release_inventory
from .rendering import RenderedClass


def decide_sync(
    builder: ReleaseStatusBuilder,
    rendered: RenderedClass,
    management: ClusterConnection,
    kubernetes: str,
    claimed: Collection[Identity],
    policy: Policy,
) -> Decision:
    """Decides to apply the chart's objects and to prune those that it no longer contains, except the `claimed` ones."""
    fields: Object = {"kubernetesVersion": kubernetes}
    if rendered.problem:
        retry = PARTIAL_RETRY if rendered.unknown_kinds else FAILURE_RETRY
        return decide_failure(
            builder, APPLIED, "FailedToApplyObjects", rendered.problem, requeue_after=retry, fields=fields
        )
    objects, known = rendered.objects, release_inventory(builder.obj)
    plan = inventory.plan(objects, known, resumed=False)
    plan = replace(plan, prune=tuple(entry for entry in plan.prune if entry.identity not in claimed))
    if problem := inventory.why_too_large(plan):
        return decide_failure(builder, APPLIED, "TooManyObjects", problem, fields=fields)
    effects: list[Effect] = list(finalizer_effects(builder))
    if {step.entry.identity for step in plan.steps} - {entry.identity for entry in known}:
        message = f"applying {counted(len(objects), 'object')} of {key_of(builder.obj).name}"
        builder.set_false(APPLIED, "ObjectsApplyingOngoing", message, "Warning")
        status = builder.status(resources=inventory.dump(inventory.intent(plan)), **fields)
        effects += write_ahead(CLUSTER_STACK_RELEASE, builder.obj, status)
    effects.append(Sync(management.cluster, plan, {**management.served, **kinds_defined_by(objects)}, policy))
    return Decision(tuple(effects))


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
