"""The function `cluster_rollout`: moves Clusters to a ClusterClass, wave by wave."""

from __future__ import annotations

from shared import cluster_rollouts
from shared.api import cluster as cluster_api
from shared.clients import Clients
from shared.cluster_rollouts import Observed
from shared.kube import deleting
from shared.runtime import Function, Request
from shared.runtime.keyed_lock import KeyedLock

from .decide import decide
from .triggers import TRIGGERS


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the Clusters, unless the ClusterRollout does nothing now."""
    rollout = request.primary
    if rollout is None or deleting(rollout) or cluster_api.is_paused(rollout):
        return Observed(rollout)
    return cluster_rollouts.read(clients, rollout)


# The writes of Clusters do not fail if the ClusterRollout has changed, so the spec in an event is not trusted.
FUNCTION = Function(TRIGGERS, observe, decide, trusts_events=False, lock=KeyedLock("this ClusterRollout"))

handle = FUNCTION.handle
