"""What follows for one ClusterAddon: guards in the order of what must be there, then the way to what is wanted.

Every wait has a condition that says what is waited for, and an interval. Conditions, reasons and severities are those
that users of cluster stacks know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from shared import charts
from shared.addons.context import Awaited, Release, Rollback, Settled
from shared.addons.status import is_anothers
from shared.addons.target import unchanged
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
from shared.releases.origin import NotShared
from shared.runtime import Decision
from shared.sandbox import Busy

from . import guards, parts, readiness, rollback, stages, whole
from .observe import Observed
from .status import AddonStatus
from .waits import BROKEN_RETRY, CLUSTER_RETRY, PARTIAL_RETRY, finalizer, waiting


@dataclass(frozen=True)
class Refresh:
    """Has the workload cluster's kinds asked for again: one that was unknown may have come."""

    reached: ClusterConnection

    def execute(self, _clients: Clients) -> None:
        self.reached.cluster.discovery.invalidate()


def decide(observed: Observed, now: datetime) -> Decision:
    return replace(_decide(observed, now), context=_context(observed))


def _context(observed: Observed) -> dict[str, str]:
    """What the log tells beside the message."""
    context = {"cluster": str(dig(observed.addon, "spec.clusterRef.name", ""))}
    if observed.release is not None:
        context["release"] = observed.release.tag
    if isinstance(observed.found, Release) and observed.found.at is not None:
        context["stage"] = observed.found.at.stage.name
    return context


def _decide(observed: Observed, now: datetime) -> Decision:
    addon, cluster = observed.addon, observed.cluster
    if addon is None:
        return Decision(message="the ClusterAddon is gone")
    if cluster is None and isinstance(observed.found, ConnectionFailed) and not deleting(addon):
        return guards.not_reached(AddonStatus.as_recorded(addon, now), observed.found)
    if deleting(addon) or cluster is None or deleting(cluster):
        return guards.let_go(addon)
    if is_anothers(addon, cluster):
        # Made anew for the Cluster that has the name now, whose uid it then carries.
        return Decision((Delete(CLUSTER_ADDON, addon),), message="this addon is of an earlier Cluster of that name")
    status = AddonStatus.of(addon, cluster, now)
    if cluster_api.is_paused(cluster):
        return guards.paused(status)
    match observed.found:
        case None:
            return guards.no_cluster_stack(status, cluster)
        case PolicyError() as error:
            return guards.misconfigured(status, error)
        case Settled():
            return Decision(finalizer(addon), status.about(), message="applied")
        case ConnectionFailed() as problem:
            return guards.not_reached(status, problem)
        case found:
            status.set_true("ClusterReady")
    match found:
        case Awaited():
            return readiness.look(status, found)
        case Rollback():
            return rollback.apply(status, found)
        case NotShared():
            return guards.not_shared(status, found)
        case MissingAssets():
            return guards.not_downloaded(status, cluster, found)
        case charts.ChartError() as refusal:
            status.set_true(missing.CONDITION)
            return _not_rendered(status, f"{status.release}: {refusal}", BROKEN_RETRY)
        case Release():
            status.set_true(missing.CONDITION)
            return _bring_to(status, found)


def _bring_to(status: AddonStatus, case: Release) -> Decision:
    """The addons' own version is what decides: a new release with the same addons costs the cluster nothing."""
    if not case.resumed and unchanged(case.addon, case.goal):
        return parts.unchanged(status, case)
    if problem := case.assets.problem:
        config, reason = "ClusterAddonConfigValidated", "ParsingClusterAddonConfigFailed"
        return _broken(status, config, reason, problem, BROKEN_RETRY)
    if case.unreadable:
        return _not_rendered(status, f"{case}: {case.unreadable}", CLUSTER_RETRY)
    try:
        return stages.step(status, case, case.at) if case.at else whole.apply(status, case)
    except charts.ChartError as error:
        # Nothing is applied or pruned: the last good state stays.
        return _not_rendered(status, f"{case}: {error}", BROKEN_RETRY)
    except Busy:
        raise  # it says nothing of this cluster
    except ApiError as error:
        return guards.not_reached(status, ConnectionFailed(f"the workload API server does not answer: {error}"))
    except UnknownKinds as error:
        status.remove("HelmChartTemplated")  # the charts were rendered
        decision = _broken(status, "HelmChartApplied", "FailedToApplyObjects", f"{case}: {error}", PARTIAL_RETRY)
        return replace(decision, effects=(*decision.effects, Refresh(case.reach)))


def _not_rendered(status: AddonStatus, message: str, seconds: float) -> Decision:
    return _broken(status, "HelmChartTemplated", "TemplateNewClusterStackFailed", message, seconds)


def _broken(status: AddonStatus, condition: str, reason: str, message: str, seconds: float) -> Decision:
    status.set_false(condition, reason, message, "Error", event_type="Warning")
    return waiting(status, seconds, message)
