"""Whether Cluster API core manages a Cluster, by what core alone writes into its status.

Core that does not answer to a new generation is either about to, or gone. Which of the two is only a matter of time,
which is counted from the newest write to the spec or the status that is not ours, by the API server's clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal

from shared.api import cluster as cluster_api
from shared.api.cluster import TOPOLOGY_RECONCILED
from shared.api.conditions import get_condition
from shared.effects import MANAGER
from shared.kube import Object, dig

CATCHES_UP_WITHIN = timedelta(minutes=10)

State = Literal["none", "live", "late", "gone"]

_CONDITIONS = ("Available", "WorkersAvailable", TOPOLOGY_RECONCILED)
"""Only core writes these, at each look at a Cluster and for its generation then."""
_SHARED = "InfrastructureReady"
"""Whoever manages the Cluster writes it, core together with `Available`: where it is newer, it is of `cluster`."""


def core(cluster: Object, now: datetime) -> State:
    """What is known of core.

    `live`: it has seen the present generation. `late`: it managed the Cluster, and has some time left to see what has
    changed. `gone`: it has not done so in time. `none`: it never managed the Cluster, or `cluster` has taken over.
    """
    seen = max((_generation(cluster, type_) for type_ in _CONDITIONS), default=0)
    if not seen:
        return "none"
    if seen >= dig(cluster, "metadata.generation", 0):
        return "live"
    if _generation(cluster, _SHARED) > seen:
        return "none"
    until = late_until(cluster)
    return "late" if until is not None and now < until else "gone"


def late_until(cluster: Object) -> datetime | None:
    """When core counts as gone; None where nothing tells when the Cluster has changed."""
    changed = cluster_api.deleted_at(cluster) or max(_writes(cluster), default=None)
    return changed + CATCHES_UP_WITHIN if changed is not None else None


def _generation(cluster: Object, type_: str) -> int:
    found = (get_condition(dig(cluster, "status.conditions"), type_) or {}).get("observedGeneration")
    return found if isinstance(found, int) else 0


def _writes(cluster: Object) -> Iterator[datetime]:
    """When others last wrote to the spec or the status; metadata is not core's to answer to."""
    for entry in dig(cluster, "metadata.managedFields", []):
        if entry.get("manager") != MANAGER and not {"f:spec", "f:status"}.isdisjoint(entry.get("fieldsV1") or {}):
            time = cluster_api.timestamp(entry, "time")
            if time is not None:
                yield time
