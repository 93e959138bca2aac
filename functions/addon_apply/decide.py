"""Decides the next step of one ClusterAddon: a wait for a missing prerequisite, or a step of the sync.

Each wait sets a condition that says what is missing, and requeues after an interval. Conditions, reasons and severities
are as in cluster-stack-operator.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared import charts, watch_filter
from shared.addons.context import AwaitingReadiness, ReleaseContext, RemovalContext, RollbackContext, UpToDate
from shared.addons.first_values import RenderedAddons
from shared.addons.status import belongs_to_earlier_cluster, names_another_cluster
from shared.api import cluster as cluster_api
from shared.api.addon import AddonCondition
from shared.api.resources import CLUSTER_ADDON
from shared.applier.connection import ConnectionFailed
from shared.applier.desired import UnknownKinds
from shared.applier.policy import PolicyError
from shared.effects import Delete, Results
from shared.kube import deleting, dig
from shared.releases.missing_assets import DOWNLOADED, MissingAssets
from shared.releases.source_resolution import ReleaseNotShared
from shared.runtime import Decision

from . import guards, readiness, stages, sync
from .observe import Observed
from .report import report
from .status import BROKEN_RETRY, CLUSTER_RETRY, PARTIAL_RETRY, AddonStatusBuilder
from .step import (
    InvalidStages,
    ReleaseStep,
    StageDone,
    Step,
    Unchanged,
    UnknownCondition,
    UnmetCondition,
    UnreadableReference,
)


def decide(observed: Observed, now: datetime, results: Results | None = None) -> Decision:
    """Decides the next step of one ClusterAddon, with the names of its Cluster, release and stage for the log."""
    return replace(_decide(observed, now, results), context=_log_context(observed))


def _log_context(observed: Observed) -> dict[str, str]:
    """Returns the names of Cluster, release and stage, which are logged with the message."""
    context = {"cluster": str(dig(observed.addon, "spec.clusterRef.name", ""))}
    if observed.release is not None:
        context["release"] = observed.release.tag
    if isinstance(observed.context, ReleaseContext) and observed.context.position is not None:
        context["stage"] = observed.context.position.stage.name
    return context


def _decide(observed: Observed, now: datetime, results: Results | None) -> Decision:
    addon, cluster = observed.addon, observed.cluster
    if addon is None:
        return Decision(message="the ClusterAddon does not exist")
    if cluster is None and isinstance(observed.finding, ConnectionFailed) and not deleting(addon):
        return guards.connection_failed(AddonStatusBuilder.as_recorded(addon, now), observed.finding)
    if deleting(addon) or cluster is None or deleting(cluster):
        return (
            guards.delete_orphan(addon)
            if cluster is None and guards.is_orphan(addon)
            else guards.finalize(addon, cluster)
        )
    if belongs_to_earlier_cluster(addon, cluster):
        # `addon_create` recreates it for the present Cluster, with that Cluster's uid.
        return Decision(
            (Delete(CLUSTER_ADDON, addon),), message="the ClusterAddon belongs to an earlier Cluster with the same name"
        )
    builder = AddonStatusBuilder.of(addon, cluster, now)
    if cluster_api.is_paused(cluster):
        return guards.paused(builder)
    if names_another_cluster(addon, cluster):
        return guards.moved(addon, cluster, observed.moved, now)
    if observed.record is not None:
        return guards.take_over(addon, cluster, observed.record)
    if not watch_filter.is_same(addon, cluster):
        return guards.relabel(addon, cluster)
    match observed.finding:
        case None:
            return guards.no_cluster_stack(builder, cluster)
        case PolicyError() as error:
            return guards.misconfigured(builder, error)
        case UpToDate():
            return Decision(builder.finalizer(), builder.target_fields(), message="applied")
        case ConnectionFailed() as problem:
            return guards.connection_failed(builder, problem, cluster)
        case found:
            builder.set_true("ClusterReady")
    match found:
        case AwaitingReadiness():
            return readiness.recheck(builder, found, results)
        case RemovalContext():
            return report(builder, found, results) or sync.remove(builder, found)
        case RollbackContext():
            return report(builder, found, results) or sync.roll_back(builder, found)
        case ReleaseNotShared():
            return guards.not_shared(builder, found)
        case MissingAssets():
            return guards.not_stored(builder, cluster, found)
        case charts.ChartError() as refusal:
            builder.set_true(DOWNLOADED)
            return _not_rendered(builder, f"{builder.release}: {refusal}", BROKEN_RETRY)
        case ReleaseStep(context, step):
            builder.set_true(DOWNLOADED)
            return report(builder, context, results) or _sync(builder, context, step)


def _sync(builder: AddonStatusBuilder, context: ReleaseContext, step: Step) -> Decision:
    """Decides the next step in the sync of a release."""
    match step:
        case Unchanged():
            return sync.skip_sync(builder, context)
        case InvalidStages(problem):
            reason = "ParsingClusterAddonConfigFailed"
            return _failed(builder, "ClusterAddonConfigValidated", reason, problem, BROKEN_RETRY)
        case UnreadableReference(problem):
            return _not_rendered(builder, f"{context}: {problem}", CLUSTER_RETRY)
        case charts.ChartError() as error:
            # Nothing is applied or pruned: the last good state stays.
            return _not_rendered(builder, f"{context}: {error}", BROKEN_RETRY)
        case ConnectionFailed() as problem:
            return guards.connection_failed(builder, problem)
        case UnknownKinds() as error:
            return _failed(builder, "HelmChartApplied", "FailedToApplyObjects", f"{context}: {error}", PARTIAL_RETRY)
        case RenderedAddons() as rendered:
            if context.position is None:
                return sync.apply_release(builder, context, rendered)
            return stages.sync_stage(builder, context, context.position, rendered)
        case StageDone(position):
            return stages.finish_stage(builder, context, position)
        case UnmetCondition() | UnknownCondition() as obstacle:
            return stages.await_condition(builder, context, obstacle)


def _not_rendered(builder: AddonStatusBuilder, message: str, seconds: float) -> Decision:
    return _failed(builder, "HelmChartTemplated", "TemplateNewClusterStackFailed", message, seconds)


def _failed(
    builder: AddonStatusBuilder, condition: AddonCondition, reason: str, message: str, seconds: float
) -> Decision:
    builder.set_false(condition, reason, message, "Error", event_type="Warning")
    return builder.wait(seconds, message)
