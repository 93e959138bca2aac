"""What follows for one ClusterAddon: guards in the order of what must be there, then the way to what is wanted.

Every wait has a condition that says what is waited for, and an interval. Conditions, reasons and severities are those
that users of cluster stacks know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from shared import charts
from shared.addons.context import AwaitingReadiness, ReleaseContext, RollbackContext, UpToDate
from shared.addons.status import belongs_to_earlier_cluster
from shared.addons.target import is_applied
from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER_ADDON
from shared.applier.connection import ClusterConnection, ConnectionFailed
from shared.applier.desired import UnknownKinds
from shared.applier.policy import PolicyError
from shared.clients import Clients
from shared.effects import Delete
from shared.kube import ApiError, deleting, dig
from shared.releases import missing
from shared.releases.missing import MissingAssets
from shared.releases.source_resolution import ReleaseNotShared
from shared.runtime import Decision
from shared.sandbox import Busy

from . import guards, readiness, rollback, rollout, stages
from .observe import Observed
from .status import AddonStatus
from .waits import BROKEN_RETRY, CLUSTER_RETRY, PARTIAL_RETRY, ensure_addon_finalizer, wait


@dataclass(frozen=True)
class InvalidateDiscovery:
    """Has the workload cluster's kinds asked for again: one that was unknown may have come."""

    reached: ClusterConnection

    def execute(self, _clients: Clients) -> None:
        self.reached.cluster.discovery.invalidate()


def decide(observed: Observed, now: datetime) -> Decision:
    return replace(_decide(observed, now), context=_log_context(observed))


def _log_context(observed: Observed) -> dict[str, str]:
    """What the log tells beside the message."""
    context = {"cluster": str(dig(observed.addon, "spec.clusterRef.name", ""))}
    if observed.release is not None:
        context["release"] = observed.release.tag
    if isinstance(observed.finding, ReleaseContext) and observed.finding.position is not None:
        context["stage"] = observed.finding.position.stage.name
    return context


def _decide(observed: Observed, now: datetime) -> Decision:
    addon, cluster = observed.addon, observed.cluster
    if addon is None:
        return Decision(message="the ClusterAddon is gone")
    if cluster is None and isinstance(observed.finding, ConnectionFailed) and not deleting(addon):
        return guards.connection_failed(AddonStatus.as_recorded(addon, now), observed.finding)
    if deleting(addon) or cluster is None or deleting(cluster):
        return guards.finalize(addon)
    if belongs_to_earlier_cluster(addon, cluster):
        # Made anew for the Cluster that has the name now, whose uid it then carries.
        return Decision((Delete(CLUSTER_ADDON, addon),), message="this addon is of an earlier Cluster of that name")
    status = AddonStatus.of(addon, cluster, now)
    if cluster_api.is_paused(cluster):
        return guards.paused(status)
    match observed.finding:
        case None:
            return guards.no_cluster_stack(status, cluster)
        case PolicyError() as error:
            return guards.misconfigured(status, error)
        case UpToDate():
            return Decision(ensure_addon_finalizer(addon), status.target_fields(), message="applied")
        case ConnectionFailed() as problem:
            return guards.connection_failed(status, problem)
        case found:
            status.set_true("ClusterReady")
    match found:
        case AwaitingReadiness():
            return readiness.recheck(status, found)
        case RollbackContext():
            return rollback.roll_back(status, found)
        case ReleaseNotShared():
            return guards.not_shared(status, found)
        case MissingAssets():
            return guards.not_stored(status, cluster, found)
        case charts.ChartError() as refusal:
            status.set_true(missing.CONDITION)
            return _not_rendered(status, f"{status.release}: {refusal}", BROKEN_RETRY)
        case ReleaseContext():
            status.set_true(missing.CONDITION)
            return _roll_out(status, found)


def _roll_out(status: AddonStatus, context: ReleaseContext) -> Decision:
    """The addons' own version is what decides: a new release with the same addons costs the cluster nothing."""
    if not context.resumed and is_applied(context.addon, context.target):
        return rollout.skip_rollout(status, context)
    if problem := context.assets.problem:
        config, reason = "ClusterAddonConfigValidated", "ParsingClusterAddonConfigFailed"
        return _failed(status, config, reason, problem, BROKEN_RETRY)
    if context.unreadable:
        return _not_rendered(status, f"{context}: {context.unreadable}", CLUSTER_RETRY)
    try:
        return (
            stages.advance_stage(status, context, context.position)
            if context.position
            else rollout.apply_release(status, context)
        )
    except charts.ChartError as error:
        # Nothing is applied or pruned: the last good state stays.
        return _not_rendered(status, f"{context}: {error}", BROKEN_RETRY)
    except Busy:
        raise  # it says nothing of this cluster
    except ApiError as error:
        return guards.connection_failed(status, ConnectionFailed(f"the workload API server does not answer: {error}"))
    except UnknownKinds as error:
        status.remove("HelmChartTemplated")  # the charts were rendered
        decision = _failed(status, "HelmChartApplied", "FailedToApplyObjects", f"{context}: {error}", PARTIAL_RETRY)
        return replace(decision, effects=(*decision.effects, InvalidateDiscovery(context.connection)))


def _not_rendered(status: AddonStatus, message: str, seconds: float) -> Decision:
    return _failed(status, "HelmChartTemplated", "TemplateNewClusterStackFailed", message, seconds)


def _failed(status: AddonStatus, condition: str, reason: str, message: str, seconds: float) -> Decision:
    status.set_false(condition, reason, message, "Error", event_type="Warning")
    return wait(status, seconds, message)
