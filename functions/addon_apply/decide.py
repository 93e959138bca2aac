"""What follows for one ClusterAddon: guards in the order of what must be there, then the way to what is wanted.

Every wait has a condition that says what is waited for, and an interval. Conditions, reasons and severities are those
that users of cluster stacks know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from shared import charts
from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER_ADDON
from shared.clients import Clients
from shared.effects import Delete
from shared.kube import ApiError, deleting, dig
from shared.releases import missing
from shared.releases.missing import MissingAssets
from shared.runtime import Decision
from shared.runtime.verdict import Verdict
from shared.workload.desired import UnknownKinds
from shared.workload.policy import PolicyError
from shared.workload.reach import Reached, Unreachable

from . import guards, parts, readiness, rollback, stages, whole
from .case import Awaited, Release, Rollback, Settled
from .observe import Observed
from .standing import is_anothers
from .target import unchanged
from .waits import BROKEN_RETRY, CLUSTER_RETRY, PARTIAL_RETRY, finalizer, waiting


@dataclass(frozen=True)
class Refresh:
    """Has the workload cluster's kinds asked for again: one that was unknown may have come."""

    reached: Reached

    def execute(self, _clients: Clients) -> None:
        self.reached.workload.discovery.forget()


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
    if deleting(addon) or cluster is None or deleting(cluster):
        return guards.let_go(addon)
    if is_anothers(addon, cluster):
        # Made anew for the Cluster that has the name now, whose uid it then carries.
        return Decision((Delete(CLUSTER_ADDON, addon),), message="this addon is of an earlier Cluster of that name")
    verdict = Verdict(addon, now)
    if cluster_api.is_paused(cluster):
        return guards.paused(verdict)
    match observed.found:
        case None:
            return guards.no_cluster_stack(verdict, cluster)
        case PolicyError() as error:
            return guards.misconfigured(verdict, error)
        case Settled():
            return Decision(finalizer(addon), message="applied")
        case Unreachable() as problem:
            return guards.not_reached(verdict, problem)
        case found:
            verdict.true("ClusterReady")
    match found:
        case Awaited():
            return readiness.look(verdict, found)
        case Rollback():
            return rollback.apply(verdict, found)
        case MissingAssets():
            return guards.not_downloaded(verdict, cluster, found)
        case Release():
            verdict.true(missing.CONDITION)
            return _bring_to(verdict, found)


def _bring_to(verdict: Verdict, case: Release) -> Decision:
    """The addons' own version is what decides: a new release with the same addons costs the cluster nothing."""
    if not case.resumed and unchanged(case.addon, case.goal):
        verdict.true("HelmChartApplied")
        effects = (*finalizer(case.addon), *parts.advance(case))
        return Decision(effects, verdict.status(ready=True, digest=case.goal.digest), message="addons unchanged")
    if problem := case.assets.problem:
        verdict.false(
            "ClusterAddonConfigValidated", "ParsingClusterAddonConfigFailed", problem, "Error", tell="Warning"
        )
        return waiting(verdict, BROKEN_RETRY, problem)
    verdict.drop("ClusterAddonConfigValidated")
    if case.unreadable:
        verdict.false("HelmChartTemplated", "TemplateNewClusterStackFailed", case.unreadable, "Error", tell="Warning")
        return waiting(verdict, CLUSTER_RETRY, case.unreadable)
    try:
        return stages.step(verdict, case, case.at) if case.at else whole.apply(verdict, case)
    except charts.ChartError as error:
        # Nothing is applied or pruned: the last good state stays.
        verdict.false("HelmChartTemplated", "TemplateNewClusterStackFailed", str(error), "Error", tell="Warning")
        return waiting(verdict, BROKEN_RETRY, f"{case.name}: {error}")
    except ApiError as error:
        return guards.not_reached(verdict, Unreachable(f"the workload API server does not answer: {error}"))
    except UnknownKinds as error:
        verdict.false("HelmChartApplied", "FailedToApplyObjects", str(error), "Error", tell="Warning")
        decision = waiting(verdict, PARTIAL_RETRY, str(error))
        return replace(decision, effects=(*decision.effects, Refresh(case.reach)))
