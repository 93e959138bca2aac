"""Decides about one ClusterRollout: which Clusters get the target now, and the conditions that follow."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from shared.api import cluster as cluster_api
from shared.api.conditions import abridged, counted
from shared.cluster_rollouts import SETTLING, MoveClusters, Observed, Plan, plan, wanted
from shared.effects import Results
from shared.kube import ApiError, deleting, dig, key_of
from shared.rollouts import Rollout
from shared.runtime import Decision
from shared.runtime.status import StatusBuilder

WRITE_RETRY = 20.0
WAIT_RETRY = 60.0
SAFETY = 300.0
"""Seconds until the next look after a failed write, while a Cluster waits for a class, which sends no event, or for
another ClusterRollout, and while `rollout_wake` reports each progress."""

Status = StatusBuilder[Literal["Ready", "RolloutStrategyAccepted", "ClustersAccepted"]]


def decide(observed: Observed, now: datetime, results: Results | None = None) -> Decision:
    """Decides the moves; with their results, the status."""
    rollout = observed.rollout
    if rollout is None or deleting(rollout):
        return Decision(message="the ClusterRollout does not exist")
    if cluster_api.is_paused(rollout):
        return Decision(message="paused")
    status = Status(rollout, now)
    if observed.failure:
        status.set_false("Ready", "ClusterSelectionFailed", observed.failure, event_type="Warning")
        return status.decision(message=observed.failure, observedGeneration=status.generation)
    planned = plan(rollout, observed, now)
    failures = next(iter(results.of(MoveClusters)), {}) if results else {}
    _set_ready(status, planned, failures)
    _set_strategy(status, planned.rollout)
    _set_clusters(status, planned)
    return status.decision(
        *((MoveClusters(planned.moves),) if planned.moves else ()),
        requeue_after=_look_again(planned, failures, now),
        message=_told(planned, failures),
        observedGeneration=status.generation,
        rollout=planned.rollout.dump(),
    )


def _look_again(planned: Plan, failures: Mapping[str, ApiError], now: datetime) -> float | None:
    """Returns the seconds until the next look; None if all is done, because a changed Cluster sends an event."""
    if planned.done:
        return None
    opens_at = planned.rollout.opens_at
    looks = [max((opens_at - now).total_seconds(), 1.0)] if opens_at else []
    if planned.unready or not opens_at:
        looks.append(SAFETY)
    if failures:
        looks.append(WRITE_RETRY)
    if planned.settling:
        looks.append(SETTLING.total_seconds())
    if any(one.waits_for for one in planned.targets if not one.up_to_date):
        looks.append(WAIT_RETRY)
    return min(looks)


def _set_ready(status: Status, planned: Plan, failures: Mapping[str, ApiError]) -> None:
    """Reports that all Clusters are done, or the worst reason why they are not."""
    rollout = planned.rollout
    unready = [f"{one.name}: {planned.unready[one.name]}" for one in planned.targets if one.name in planned.unready]
    moved = sorted(key_of(move.obj).name for move in planned.moves)
    if failures:
        texts = [f"{name}: {error}" for name, error in sorted(failures.items())]
        status.set_false("Ready", "ClusterUpdateFailed", abridged(texts), event_type="Warning", progress=True)
    elif rollout.waiting:
        reason = "RolloutPaused" if dig(status.obj, "spec.rolloutStrategy.paused") is True else "RolloutWaiting"
        texts = rollout.reasons + ([f"not ready: {abridged(unready, 3)}"] if unready else [])
        status.set_false("Ready", reason, abridged(texts), progress=True)
    elif moved or unready:
        texts = [f"{name}: gets {wanted(status.obj)}" for name in moved if name not in planned.unready]
        status.set_false("Ready", "ClustersNotReady", abridged([*texts, *unready]), progress=True)
    else:
        status.set_true("Ready", "UpToDate", event_type="Normal")


def _set_strategy(status: Status, rollout: Rollout) -> None:
    if rollout.wrong_windows:
        text = abridged(rollout.wrong_windows)
        status.set_false("RolloutStrategyAccepted", "InvalidWindow", text, event_type="Warning")
    elif rollout.problems:
        text = abridged(rollout.problems)
        status.set_false("RolloutStrategyAccepted", "PartitionsDoNotFit", text, event_type="Warning")
    else:
        status.set_true("RolloutStrategyAccepted", "Accepted")


def _set_clusters(status: Status, planned: Plan) -> None:
    """Reports the selected Clusters that another ClusterRollout selects, too, or that cannot get the target."""
    if complaints := planned.complaints:
        reason = "SelectedTwice" if planned.twice else "ClustersLeftAlone"
        status.set_false("ClustersAccepted", reason, abridged(complaints), event_type="Warning")
    else:
        status.set_true("ClustersAccepted", "Accepted")


def _told(planned: Plan, failures: Mapping[str, ApiError]) -> str:
    return f"{counted(len(planned.moves) - len(failures), 'Cluster')} changed, {len(failures)} failed"
