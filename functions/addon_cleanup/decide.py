"""Decides about one clean-up: deletes leftovers, waits until they are gone, and gives up after a deadline."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.api import cluster as cluster_api
from shared.api.addon import AddonCondition
from shared.api.conditions import abridged, is_true
from shared.api.hooks import CLEANED_UP, HookWait, cleanup_wait
from shared.applier.connection import ConnectionFailed
from shared.effects import Effect, Results
from shared.kube import Object, dig
from shared.runtime import Decision
from shared.runtime.status import V1Beta1StatusBuilder

from .leftovers import Leftovers
from .observe import Observed
from .removal import RemoveLeftovers

RETRY = 5.0
UNREACHABLE_RETRY = 10.0
_SHOWN = 3


def decide(observed: Observed, now: datetime, results: Results | None = None) -> Decision:
    """Decides the next step of a clean-up; gives up after the deadline.

    Reports deletions that the API server rejected, because only a user can resolve that.
    """
    addon, leftovers = observed.addon, observed.leftovers
    if addon is None or not observed.due or is_true(dig(addon, "status.conditions"), CLEANED_UP):
        return Decision(message="nothing to clean up")
    builder = V1Beta1StatusBuilder[AddonCondition](addon, now)
    if isinstance(leftovers, Leftovers) and not leftovers.awaited:
        message = "the workload cluster is cleaned up"
        builder.set_true(CLEANED_UP, "CleanedUp", message, event_type="Normal")
        return builder.decision(message=message)
    if isinstance(leftovers, ConnectionFailed):
        message = leftovers.message
    else:
        message = f"waiting for the deletion of {abridged(leftovers.awaited if leftovers else [], _SHOWN)}"
    if _overdue(addon, observed.cluster or {}, now, observed.deadline):
        message = (
            f"the clean-up ended after its timeout of {observed.deadline.total_seconds():g} s; delete the remaining "
            f"objects in the cloud by hand: {message}"
        )
        builder.set_false(CLEANED_UP, "CleanupGivenUp", message, "Warning", event_type="Warning")
        return builder.decision(message=message)
    if isinstance(leftovers, ConnectionFailed):
        builder.set_false(CLEANED_UP, "WorkloadUnreachable", message, event_type="Warning")
        return builder.decision(requeue_after=UNREACHABLE_RETRY, message=message)
    if failures := [failure for result in results.of(RemoveLeftovers) for failure in result] if results else []:
        message = abridged(failures, _SHOWN)
        builder.set_false(CLEANED_UP, "CleanupFailed", message, "Error", event_type="Warning")
        return builder.decision(requeue_after=UNREACHABLE_RETRY, message=message)
    builder.set_false(CLEANED_UP, "CleanupOngoing", message, event_type="Normal", progress=True)
    removal: tuple[Effect, ...] = ()
    if leftovers is not None and observed.workload_cluster is not None and leftovers.removable:
        removal = (RemoveLeftovers(observed.workload_cluster, leftovers),)
    return builder.decision(*removal, requeue_after=RETRY, message=message)


def _overdue(addon: Object, cluster: Object, now: datetime, deadline: timedelta) -> bool:
    """Returns whether the deadline has passed. As in the hook, it counts from the first call for this deletion."""
    deleted, begun = cluster_api.deleted_at(cluster), HookWait.load(addon)
    since = begun.since if begun and cleanup_wait(cluster, now).continues(begun, earliest=deleted) else deleted
    return since is not None and now - since >= deadline
