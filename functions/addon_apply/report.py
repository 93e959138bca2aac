"""What is said once the effects have happened or failed; a decision without a rollout stands as it was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from shared import metrics
from shared.api.resources import CLUSTER_ADDON
from shared.clients import Clients
from shared.effects import MANAGER, Results
from shared.kube import ApiError, deleting, dig, key_of
from shared.runtime import Decision, Notice
from shared.runtime.verdict import Verdict
from shared.workload.inventory import Entry
from shared.workload.outcome import Incomplete, Outcome, told_waiting
from shared.workload.policy import Policy
from shared.workload.rollout import Rollout

from . import history
from .decide import BROKEN_RETRY, CLUSTER_RETRY, PARTIAL_RETRY, READY_RETRY, LookAgain
from .observe import Observed, progress, target
from .target import AFTER, DONE, Position, Progress


def report(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision:
    if observed.addon is None or not any(isinstance(effect, (Rollout, LookAgain)) for effect in decision.effects):
        return decision
    verdict = Verdict(observed.addon, now)
    verdict.true("ClusterReady")
    if observed.rollback is None:
        verdict.true("ClusterStackReleaseDownloaded")
    if isinstance(results.error, Incomplete):
        incomplete, results.error = results.error, None
        return _incomplete(decision, verdict, incomplete)
    looked = next((value for value in results.values if isinstance(value, list)), None)
    if looked is not None:
        return _ready_or_not(decision, verdict, observed, looked)
    if any(isinstance(effect, LookAgain) for effect in decision.effects) and isinstance(results.error, ApiError):
        message, results.error = f"the workload API server does not answer: {results.error}", None
        verdict.false("ClusterReady", "ControlPlaneNotReady", message)
        return replace(decision, status=verdict.status(ready=False), requeue=CLUSTER_RETRY, message=message)
    outcome = next((value for value in results.values if isinstance(value, Outcome)), None)
    if outcome is None or results.error is not None:
        return decision
    verdict.drop("HelmChartTemplated", "HelmChartDeleted", "ClusterAddonConfigValidated", "EvaluatedCEL")
    _tell(verdict, outcome)
    if observed.rollback is not None:
        return _rolled_back(decision, verdict, observed.rollback, outcome)
    verdict.true("ClusterStackReleaseDownloaded")
    way = progress(observed)
    if way.current is not None:
        return _stage_done(decision, verdict, observed, way, way.current, outcome)
    return _applied(decision, verdict, observed, outcome)


def overtaken(clients: Clients, observed: Observed, decision: Decision, results: Results) -> None:
    """Where another replica went on to another release meanwhile, what was applied here came after it.

    The addon forgets that it is done, so that everything is looked at and repaired once more. Of one that was let go
    meanwhile nothing is kept.
    """
    started = next((n for n, effect in enumerate(decision.effects) if isinstance(effect, Rollout)), None)
    if observed.addon is None or started is None or len(results.values) < started:
        return
    key, wanted = key_of(observed.addon), target(observed).digest
    addon = clients.management.find(CLUSTER_ADDON, key)
    if addon is None or deleting(addon):
        history.Forget(observed.addon).execute(clients)
    elif dig(addon, "status.digest") != wanted:
        doubt = {"status": {"ready": False, "digest": None}}
        clients.management.patch(CLUSTER_ADDON, key, doubt, subresource="status", manager=MANAGER)


def _incomplete(decision: Decision, verdict: Verdict, incomplete: Incomplete) -> Decision:
    """Some objects failed, or a wave of hooks is not over; the inventory says which."""
    outcome, message = incomplete.outcome, str(incomplete)
    _tell(verdict, outcome)
    if incomplete.waiting:
        verdict.false("HelmChartApplied", "ObjectsApplyingOngoing", message)
        seconds = READY_RETRY
    else:
        verdict.false("HelmChartApplied", "FailedToApplyObjects", message, tell="Warning")
        seconds = CLUSTER_RETRY if incomplete.unavailable else PARTIAL_RETRY
    return replace(
        decision,
        status=verdict.status(ready=False, resources=_dump(outcome.entries)),
        notices=tuple(verdict.notices),
        requeue=seconds,
        message=message,
    )


def _stage_done(
    decision: Decision, verdict: Verdict, observed: Observed, way: Progress, at: Position, outcome: Outcome
) -> Decision:
    """The stage's chart is applied or deleted; what may be left of it is its second condition."""
    way = way.moved(AFTER if at.stage.after else DONE, verdict.now)
    word = "deleted" if at.stage.action == "delete" else "applied"
    message = f"{observed.release}: stage {at.stage.name} {word}"
    verdict.notices.append(Notice("StageDone", message))
    verdict.false("HelmChartApplied", "ObjectsApplyingOngoing", message)
    status = verdict.status(ready=False, resources=_dump(outcome.entries), stages=way.dump())
    return replace(decision, status=status, notices=tuple(verdict.notices), proceed=True, message=message)


def _applied(decision: Decision, verdict: Verdict, observed: Observed, outcome: Outcome) -> Decision:
    goal = target(observed)
    looking = dig(verdict.obj, "status.digest") == goal.digest and dig(verdict.obj, "status.ready") is True
    verdict.true("HelmChartApplied")
    message = f"{observed.release}: {len(outcome.written)} objects written, {len(outcome.pruned)} pruned"
    if outcome.written or outcome.pruned or not looking:
        verdict.notices.append(Notice("AddonsApplied", message))
    only_report = looking and isinstance(observed.policy, Policy) and observed.policy.drift == "report"
    fields: dict[str, object] = {
        "digest": goal.digest,
        "kubernetesVersion": goal.told or None,
        "drift": [str(drift) for drift in outcome.drift[:20]] if only_report and outcome.drift else None,
    }
    if outcome.written or not looking:
        fields["history"] = history.longer(verdict.obj, goal.class_name, goal.version, goal.digest, verdict.now)
    return _ready_or_not(
        replace(decision, message=message), verdict, observed, outcome.entries, told=outcome.unready, **fields
    )


def _ready_or_not(
    decision: Decision,
    verdict: Verdict,
    observed: Observed,
    entries: Sequence[Entry],
    *,
    told: Sequence[Entry] | None = None,
    **fields: object,
) -> Decision:
    waiting = [entry for entry in entries if entry.waiting] if told is None else told
    policy = observed.policy if isinstance(observed.policy, Policy) else Policy()
    requeue = None
    message = decision.message or "all objects are ready"
    if waiting and policy.wait:
        message = "waiting for " + told_waiting(waiting)
        verdict.false("ObjectsReady", "WaitingForObjects", message, tell="Normal")
        requeue = READY_RETRY
        if verdict.since("ObjectsReady") > policy.wait_timeout:
            message = f"not ready after {policy.wait_timeout:g} s: {told_waiting(waiting)}"
            verdict.false("ObjectsReady", "ObjectsNotReady", message, "Warning", tell="Warning")
            requeue = BROKEN_RETRY
    elif policy.wait:
        verdict.true("ObjectsReady")
        if told is None:
            verdict.notices.append(Notice("AddonsReady", message))
    else:
        verdict.drop("ObjectsReady")
    status = verdict.status(ready=requeue is None, resources=_dump(entries), **fields)
    return replace(decision, status=status, notices=tuple(verdict.notices), requeue=requeue, message=message)


def _rolled_back(decision: Decision, verdict: Verdict, kept: history.Kept, outcome: Outcome) -> Decision:
    message = (
        f"rolled back to {kept.class_name} {kept.version}; remove annotation {history.ROLLBACK} "
        "or give the Cluster another class to go on"
    )
    verdict.false("HelmChartApplied", history.ROLLED_BACK, message, "Warning", tell="Warning")
    verdict.drop("ObjectsReady", "ClusterStackReleaseDownloaded")
    status = verdict.status(ready=False, resources=_dump(outcome.entries), stages=None)
    return replace(decision, status=status, notices=tuple(verdict.notices), message=message)


def _tell(verdict: Verdict, outcome: Outcome) -> None:
    """Counts, and events for what people should hear of, whatever else came of the rollout."""
    metrics.OBJECTS.labels(outcome="applied").inc(len(outcome.written))
    metrics.OBJECTS.labels(outcome="pruned").inc(len(outcome.pruned))
    metrics.OBJECTS.labels(outcome="failed").inc(len(outcome.failures))
    written = {entry.identity for entry in outcome.written}
    metrics.DRIFT.inc(sum(drift.entry.identity in written for drift in outcome.drift))
    if outcome.kept:
        left = ", ".join(str(entry) for entry in outcome.kept[:5])
        verdict.notices.append(Notice("ObjectsKept", f"not ours or marked to be kept, left in the cluster: {left}"))
    if outcome.held:
        taken = "; ".join(f"{entry}: {held}" for entry, held in outcome.held[:5])
        verdict.notices.append(Notice("FieldConflicts", f"fields that other managers held: {taken}"))
    if outcome.drift:
        told = "; ".join(str(drift) for drift in outcome.drift[:5])
        more = f"; and {len(outcome.drift) - 5} more" if len(outcome.drift) > 5 else ""
        verdict.notices.append(Notice("DriftFound", f"changed in the workload cluster: {told}{more}", "Warning"))


def _dump(entries: Sequence[Entry]) -> list[dict[str, object]]:
    return [entry.dump() for entry in entries]
