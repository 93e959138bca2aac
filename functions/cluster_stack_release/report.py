"""What is said once a rollout or a removal has happened; any other decision stands as it was made."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.applier import inventory
from shared.applier.outcome import Incomplete, Outcome
from shared.effects import Results
from shared.kube import deleting, dig
from shared.releases.missing import CONDITION as DOWNLOADED
from shared.runtime import Decision, Notice
from shared.runtime.verdict import PAUSED, Verdict

from .conditions import APPLIED, DELETED, PARTIAL_RETRY, PROVIDER
from .observe import Assets, Observed


def report(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision:
    if observed.release is None:
        return decision
    verdict = Verdict(observed.release, now)
    outcome = next((value for value in results.values if isinstance(value, Outcome)), None)
    if isinstance(results.error, Incomplete):
        incomplete, results.error = results.error, None
        return _incomplete(decision, verdict, incomplete)
    if outcome is None or results.error is not None:
        return decision
    if deleting(observed.release):
        status = (decision.status or {}) | {"resources": inventory.dump(outcome.entries)}
        return replace(decision, status=status)
    return _applied(decision, verdict, observed, outcome)


def _applied(decision: Decision, verdict: Verdict, observed: Observed, outcome: Outcome) -> Decision:
    for condition in (DOWNLOADED, PROVIDER, APPLIED):
        verdict.true(condition)
    verdict.drop(PAUSED)
    message = f"{observed.name}: {len(outcome.written)} objects written, {len(outcome.pruned)} pruned"
    first = dig(verdict.obj, "status.ready") is not True
    return replace(
        decision,
        status=verdict.status(
            ready=True,
            resources=inventory.dump(outcome.entries),
            kubernetesVersion=observed.assets.kubernetes if isinstance(observed.assets, Assets) else None,
        ),
        notices=(Notice("ClusterStackReleaseReady", message),) if first else (),
        message=message,
    )


def _incomplete(decision: Decision, verdict: Verdict, incomplete: Incomplete) -> Decision:
    message = str(incomplete)
    if deleting(verdict.obj):
        condition, reason = DELETED, "FailedToDeleteObjects"
    else:
        condition, reason = APPLIED, "ObjectsApplyingOngoing"
        verdict.true(DOWNLOADED)
        verdict.true(PROVIDER)
    verdict.false(condition, reason, message, "Warning", tell="Warning")
    return replace(
        decision,
        status=verdict.status(resources=inventory.dump(incomplete.outcome.entries)),
        notices=tuple(verdict.notices),
        requeue=PARTIAL_RETRY,
        message=message,
    )
