"""Decides about one HelmChartProxy: the writes of its HelmReleaseProxies, and the conditions that follow from them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from shared.api.cluster import is_paused
from shared.api.conditions import abridged, get_condition
from shared.api.resources import HELM_CHART_PROXY
from shared.effects import Effect, RemoveFinalizer, Results, ensure_finalizer
from shared.helm_proxies import selection
from shared.helm_proxies.dependencies import is_observed
from shared.helm_proxies.inputs import Observed
from shared.helm_proxies.names import HCP_FINALIZER
from shared.helm_proxies.plan import (
    CREATION_FAILED,
    DELETION_FAILED,
    PARSING_FAILED,
    REINSTALLING,
    Plan,
    Problem,
    plan,
    removal,
)
from shared.helm_proxies.writes import Outcome, WriteReleases
from shared.kube import Object, deleting, dig, has_finalizer, key_of
from shared.rollouts import Rollout
from shared.runtime import Decision

from .status import PROXIES_READY, STRATEGY_ACCEPTED, UP_TO_DATE, ProxyStatus, aggregate, reference

WRITE_RETRY = 10.0
PROBLEM_RETRY = 60.0
CONTROLLER_RETRY = 300.0
DEPENDENCY_RETRY = 20.0
"""Seconds until the next reconciliation after a failed write, with a temporary problem, while the original controller
runs, and while a Cluster waits for a dependency."""

_REASONS = (DELETION_FAILED, PARSING_FAILED, CREATION_FAILED, REINSTALLING)
"""The reasons of problems, the worst first: the condition has one reason."""


def decide(observed: Observed, now: datetime, results: Results | None = None) -> Decision:
    """Decides the writes; with their results, the status."""
    proxy = observed.proxy
    if proxy is None:
        return Decision(message="the HelmChartProxy does not exist")
    if is_paused(proxy):
        return Decision(message="paused")
    if observed.controller:
        return Decision(
            requeue_after=CONTROLLER_RETRY, message=f"{observed.controller} runs and reconciles this object"
        )
    builder = ProxyStatus(proxy, now)
    outcome = next(iter(results.of(WriteReleases)), Outcome({}, {})) if results else Outcome({}, {})
    if deleting(proxy):
        return _delete(builder, observed, outcome)
    finalizer = ensure_finalizer(HELM_CHART_PROXY, proxy, HCP_FINALIZER)
    if observed.failure:
        builder.set_false(UP_TO_DATE, "ClusterSelectionFailed", observed.failure, event_type="Warning")
        return builder.decision(
            *finalizer, requeue_after=PROBLEM_RETRY, message=observed.failure, observedGeneration=builder.generation
        )
    planned = plan(proxy, observed, now)
    return _report(builder, observed, planned, outcome, *finalizer)


def _delete(builder: ProxyStatus, observed: Observed, outcome: Outcome) -> Decision:
    """Decides to delete all releases, and to wait until they are gone."""
    proxy = builder.obj
    if not has_finalizer(proxy, HCP_FINALIZER):
        return Decision(message="being deleted")
    if not observed.releases:
        return Decision(
            (RemoveFinalizer(HELM_CHART_PROXY, proxy, HCP_FINALIZER),), message="all HelmReleaseProxies are deleted"
        )
    return _report(builder, observed, removal(observed), outcome)


def _report(builder: ProxyStatus, observed: Observed, planned: Plan, outcome: Outcome, *effects: Effect) -> Decision:
    """Returns the decision with the planned writes, and with the conditions after their outcome."""
    problems = [*planned.problems, *_failures(planned, outcome)]
    problems += [
        Problem(
            REINSTALLING,
            f"the HelmReleaseProxy for {write.cluster} is deleted; a new HelmReleaseProxy installs the chart again",
        )
        for write in planned.writes
        if write.kind == "reinstall" and write.cluster not in outcome.failures
    ]
    releases = _releases(observed, outcome)
    outdated = sorted(key_of(release).name for release in releases if _is_unobserved(release))
    rollout = planned.rollout
    if problems:
        _set_problem(builder, problems)
    elif rollout and rollout.waiting:
        _set_waiting(builder, observed, rollout)
    elif outdated and not deleting(builder.obj):
        message = f"not reconciled yet: {abridged(outdated, separator=', ')}"
        builder.set_false(UP_TO_DATE, "HelmReleaseProxySpecsUpdating", message)
    elif not deleting(builder.obj):
        builder.set_true(UP_TO_DATE, "UpToDate")
    if not outdated or not get_condition(builder.initial, PROXIES_READY):
        builder.set(PROXIES_READY, *aggregate(releases))
    writes = (WriteReleases(planned.writes),) if planned.writes else ()
    fields: Object = {"observedGeneration": builder.generation}
    if not deleting(builder.obj):
        fields["matchingClusters"] = [reference(cluster) for cluster in observed.clusters]
        fields |= _rollout_status(builder, rollout)
    retry = _retry(problems, outcome) or (DEPENDENCY_RETRY if _waits_for_others(observed, rollout) else None)
    if rollout and rollout.waiting and rollout.opens_at:
        until = max((rollout.opens_at - builder.now).total_seconds(), 1.0)
        retry = min(retry or until, until)
    return builder.decision(*effects, *writes, requeue_after=retry, message=_told(planned), **fields)


def _rollout_status(builder: ProxyStatus, rollout: Rollout | None) -> Object:
    """Sets or removes the condition about the strategy; returns the fields about the rollout."""
    if rollout is None:
        builder.remove(STRATEGY_ACCEPTED)
        return {"rollout": None} if dig(builder.obj, "status.rollout") else {}
    if rollout.wrong_windows:
        builder.set_false(STRATEGY_ACCEPTED, "InvalidWindow", abridged(rollout.wrong_windows), event_type="Warning")
    elif rollout.problems:
        builder.set_false(STRATEGY_ACCEPTED, "PartitionsDoNotFit", abridged(rollout.problems), event_type="Warning")
    else:
        builder.set_true(STRATEGY_ACCEPTED, "Accepted")
    return {"rollout": rollout.dump()}


def _set_waiting(builder: ProxyStatus, observed: Observed, rollout: Rollout) -> None:
    """Reports why Clusters wait: the most frequent reason first."""
    reason = "RolloutWaiting"
    if observed.dependencies.problem:
        reason = "DependencyCycle"
    elif dig(observed.proxy or {}, "spec.rolloutStrategy.paused"):
        reason = "RolloutPaused"
    event_type = "Warning" if reason == "DependencyCycle" else ""
    builder.set_false(UP_TO_DATE, reason, abridged(rollout.reasons), event_type=event_type, progress=True)


def _waits_for_others(observed: Observed, rollout: Rollout | None) -> bool:
    """Returns whether a Cluster waits for a dependency, whose events do not start this function."""
    return rollout is not None and any(observed.dependencies.missing(name) for name in rollout.waiting)


def _failures(planned: Plan, outcome: Outcome) -> list[Problem]:
    kinds = {write.cluster: write.kind for write in planned.writes}
    return [
        Problem(
            DELETION_FAILED if kinds.get(cluster) in ("delete", "reinstall") else CREATION_FAILED,
            f"{cluster}: {error}",
            temporary=True,
        )
        for cluster, error in sorted(outcome.failures.items())
    ]


def _set_problem(builder: ProxyStatus, problems: list[Problem]) -> None:
    reason = min((problem.reason for problem in problems), key=_REASONS.index)
    texts = [problem.message for problem in problems if problem.reason == reason]
    builder.set_false(
        UP_TO_DATE, reason, abridged(texts), event_type="" if reason == REINSTALLING else "Warning", progress=True
    )


def _releases(observed: Observed, outcome: Outcome) -> list[Object]:
    """Returns the releases after the writes; a deleted one is there until its chart is uninstalled."""
    before = [outcome.stored.get(selection.cluster_of(release), release) for release in observed.releases]
    known = {selection.cluster_of(release) for release in before}
    return [*before, *(made for cluster, made in outcome.stored.items() if cluster not in known)]


def _is_unobserved(release: Object) -> bool:
    return not deleting(release) and not is_observed(release)


def _retry(problems: Iterable[Problem], outcome: Outcome) -> float | None:
    if outcome.failures:
        return WRITE_RETRY
    return PROBLEM_RETRY if any(problem.temporary for problem in problems) else None


def _told(planned: Plan) -> str:
    return f"{len(planned.writes)} HelmReleaseProxies written, {len(planned.problems)} with problems"
