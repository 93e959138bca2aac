"""Decides the syncs of a ClusterAddon, and reports them: the rollout of a release, a rollback, and a removal.

Each first writes the planned inventory, then applies and prunes objects, and records the release as applied. For a
release with stages, the stages have applied most objects before this sync. If everything was applied before, this sync
is a drift check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared import metrics
from shared.addons.context import ReconcileContext, ReleaseContext, RemovalContext, RollbackContext
from shared.addons.first_values import RenderedAddons
from shared.addons.manifest_history import SaveManifest, updated_history
from shared.addons.status import REMOVED, ROLLED_BACK
from shared.addons.stored_values import save_effects
from shared.api.conditions import abridged, counted
from shared.api.names import REMOVE_ANNOTATION, ROLLBACK_ANNOTATION, STAGE_ANNOTATION
from shared.api.resources import CLUSTER_ADDON
from shared.applier import inventory
from shared.applier.desired import kinds_defined_by
from shared.applier.inventory import Plan
from shared.applier.outcome import SyncIncomplete, SyncOutcome
from shared.applier.sync import Sync
from shared.clients import Clients
from shared.effects import Effect, Patch, Results, would_change, write_ahead
from shared.kube import Object, dig
from shared.releases.missing_assets import DOWNLOADED
from shared.runtime import Decision

from . import readiness
from .status import BROKEN_RETRY, AddonStatusBuilder


def apply_release(builder: AddonStatusBuilder, context: ReleaseContext, rendered: RenderedAddons) -> Decision:
    """Applies all objects of the release and prunes the others."""
    objects = rendered.objects
    resumed = context.resumed and not context.is_drift_check
    operations = dict.fromkeys(dict(rendered.stages), context.operation())
    plan = inventory.plan(objects, context.inventory, resumed=resumed, stages=rendered.stage_of, operations=operations)
    if problem := inventory.why_too_large(plan):
        return too_large(builder, context, problem)
    effects: tuple[Effect, ...] = builder.finalizer()
    if not context.is_drift_check or plan.count("apply") or plan.prune:
        message = f"applying {counted(len(objects), 'object')} of {context.target.class_name}"
        builder.set_false("HelmChartApplied", "ObjectsApplyingOngoing", message)
        effects += record_intent(builder, context, plan)
    effects += save_effects(context.addon, context.stored_values, rendered)
    effects += (sync_effect(context, plan, objects, only_report=context.only_report),)
    if not context.is_drift_check or plan.count("apply"):
        effects += (SaveManifest(context.addon, context.target.class_name, objects),)
    return Decision((*effects, *record_applied(context)))


def report_applied(
    builder: AddonStatusBuilder, context: ReconcileContext, results: Results, outcome: SyncOutcome
) -> Decision:
    """Reports a sync in which every object was applied or pruned; some may not be ready yet."""
    target = context.target
    builder.set_true("HelmChartApplied")
    message = f"{context}: {outcome.summary}"
    if context.is_drift_check and (outcome.written or outcome.pruned):
        # The condition and the history show that a release was applied. Only this event shows that drift was repaired.
        builder.add_event("AddonsApplied", message)
    fields: Object = {
        "digest": target.digest,
        "kubernetesVersion": target.kubernetes_version or None,
        "drift": outcome.listed_drift if context.only_report and outcome.drift else None,
    }
    for saved in results.of(SaveManifest):
        fields["history"] = updated_history(
            context.addon, target, builder.now, stored=saved.classes, stages={entry.stage for entry in outcome.entries}
        )
        if saved.problem:
            builder.add_event("ManifestNotKept", saved.problem, "Warning")
    return readiness.report_readiness(builder, context.policy, outcome.entries, message, **fields)


def skip_sync(builder: AddonStatusBuilder, context: ReleaseContext) -> Decision:
    """Records the release as applied without a sync, because the former release has the same addons."""
    builder.set_true("HelmChartApplied")
    if context.policy.wait:
        builder.set_true("ObjectsReady")
    effects = (*builder.finalizer(), *record_applied(context))
    return builder.decision(*effects, message="addons unchanged", ready=True, digest=context.target.digest)


# -- parts of every sync, of releases, stages and rollbacks ---------------------------------------------------


def too_large(builder: AddonStatusBuilder, context: ReconcileContext, problem: str) -> Decision:
    """Decides to apply nothing, because the status could not record it."""
    message = f"{context}: {problem}"
    builder.set_false("HelmChartApplied", "TooManyObjects", message, "Error", event_type="Warning")
    return builder.wait(BROKEN_RETRY, message)


def record_intent(builder: AddonStatusBuilder, context: ReconcileContext, plan: Plan) -> tuple[Effect, ...]:
    """Returns the effects that write the planned inventory before the sync, so that a crash orphans no object."""
    intent = builder.status(
        ready=False,
        resources=inventory.dump(inventory.intent(plan)),
        digest=context.target.digest,
        kubernetesVersion=context.target.kubernetes_version or None,
        stages=context.progress.dump() or None,
    )
    return write_ahead(CLUSTER_ADDON, context.addon, intent)


@dataclass(frozen=True)
class CountedSync(Sync):
    """A sync that counts its objects in the metrics of addons."""

    def execute(self, clients: Clients) -> SyncOutcome:
        try:
            outcome = super().execute(clients)
        except SyncIncomplete as incomplete:
            _count(incomplete.outcome)
            raise
        _count(outcome)
        return outcome


def _count(outcome: SyncOutcome) -> None:
    metrics.OBJECTS.labels(outcome="applied").inc(len(outcome.written))
    metrics.OBJECTS.labels(outcome="pruned").inc(len(outcome.pruned))
    metrics.OBJECTS.labels(outcome="failed").inc(len(outcome.failures))
    written = {entry.identity for entry in outcome.written}
    metrics.DRIFT.inc(sum(drift.entry.identity in written for drift in outcome.drift))


def sync_effect(context: ReconcileContext, plan: Plan, objects: Sequence[Object], *, only_report: bool = False) -> Sync:
    """Returns the effect that carries out `plan`; `objects` may include CRDs and objects of the kinds they define."""
    resources = {**context.connection.served, **kinds_defined_by(objects)}
    return CountedSync(context.connection.cluster, plan, resources, context.policy, only_report)


def record_applied(context: ReconcileContext) -> tuple[Effect, ...]:
    """Returns the effects that record the applied release in the spec and in an annotation, as upstream does."""
    addon, target = context.addon, context.target
    former = dig(addon, "spec.clusterStack")
    stage = "upgraded" if former and former != target.class_name else None
    recorded = dig(addon, ("metadata", "annotations", STAGE_ANNOTATION))
    spec = {"clusterStack": target.class_name, "version": target.version, "hook": ""}
    patch: Object = {"spec": spec, "metadata": {"annotations": {STAGE_ANNOTATION: stage or recorded or "created"}}}
    return (Patch(CLUSTER_ADDON, addon, patch),) if would_change(addon, patch) else ()


# -- rollback and removal --------------------------------------------------------------------------------------


def roll_back(builder: AddonStatusBuilder, context: RollbackContext) -> Decision:
    """Applies the stored manifest; without one, waits for a person to choose another class."""
    manifest = context.manifest
    if manifest.problem:
        message = f"rolling back from {builder.release}: {manifest.problem}"
        builder.set_false("HelmChartApplied", "RollbackFailed", message, "Error", event_type="Warning")
        return builder.wait(BROKEN_RETRY, message)
    plan = inventory.plan(manifest.objects, context.inventory, resumed=context.resumed, operations={"": "rollback"})
    if problem := inventory.why_too_large(plan):
        return too_large(builder, context, problem)
    builder.set_false("HelmChartApplied", "RollingBack", f"rolling back to {manifest.class_name}")
    return _carry_out(builder, context, plan, manifest.objects)


def report_rolled_back(builder: AddonStatusBuilder, context: RollbackContext, outcome: SyncOutcome) -> Decision:
    """Reports a complete rollback. The addon is not ready, because its Cluster still refers to the rejected class."""
    message = (
        f"rolled back to {context.manifest.class_name} (addons {context.manifest.version}); "
        f"to continue, remove annotation {ROLLBACK_ANNOTATION} from the Cluster, or give the Cluster another class"
    )
    builder.set_false("HelmChartApplied", ROLLED_BACK, message, "Warning", event_type="Warning")
    builder.remove("ObjectsReady", DOWNLOADED)
    return builder.decision(message=message, ready=False, resources=inventory.dump(outcome.entries), stages=None)


def remove(builder: AddonStatusBuilder, context: RemovalContext) -> Decision:
    """Prunes everything that was applied."""
    plan = inventory.plan((), context.inventory, resumed=context.resumed)
    message = f"removing {counted(len(plan.prune), 'object')}"
    builder.set_false("HelmChartApplied", "RemovingAddons", message, event_type="Normal")
    return _carry_out(builder, context, plan, ())


def report_removed(builder: AddonStatusBuilder, outcome: SyncOutcome) -> Decision:
    """Reports that the removal is complete, and which objects stay."""
    stay = ""
    if outcome.kept:
        kept = abridged([*map(str, outcome.kept)], 5)
        stay = f"; these objects stay, because they belong to other owners or are annotated to be kept: {kept}"
    cluster = dig(builder.obj, "spec.clusterRef.name", "")
    message = (
        f"the addons are removed{stay}; to apply the addons again, run `capi-functions addons remove {cluster} "
        f"--undo`, which removes annotation {REMOVE_ANNOTATION} from the Cluster"
    )
    builder.set_false("HelmChartApplied", REMOVED, message, "Warning", event_type="Normal")
    builder.remove("ObjectsReady", DOWNLOADED)
    resources = inventory.dump(outcome.entries)
    return builder.decision(message=message, ready=False, resources=resources, stages=None, drift=None)


def _carry_out(
    builder: AddonStatusBuilder, context: ReconcileContext, plan: Plan, objects: Sequence[Object]
) -> Decision:
    intent, sync = record_intent(builder, context, plan), sync_effect(context, plan, objects)
    return Decision((*builder.finalizer(), *intent, sync, *record_applied(context)))
