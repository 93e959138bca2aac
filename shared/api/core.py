"""Determines whether Cluster API core manages a Cluster, by its status, because core observes each generation.

Core and the function `cluster` write the same conditions, so the field manager identifies their last writer. Only core
writes `TopologyReconciled`. If core has not observed the current generation, it is late or no longer running. A timeout
distinguishes these. It starts at the newest write to the spec or the status by another field manager, by the API
server's clock. A new Cluster shows no trace of core, so there the presence of a running core decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from shared.api import cluster as cluster_api
from shared.api.cluster import TOPOLOGY_RECONCILED
from shared.api.conditions import get_condition
from shared.api.v1beta1 import has_older_conditions_only
from shared.kube import MANAGER, Object, deleting, dig, is_ours

CORE_ANNOTATION = "capi-functions.dev/core"
"""The annotation of a Cluster whose value `ignore` makes our functions reconcile it even if core manages it."""
MANAGED_BY_CORE = "ManagedByClusterAPI"
"""The reason of events and conditions about a Cluster that is left to core."""
CORE_TIMEOUT = timedelta(minutes=10)
"""The time that core has to observe a change."""

CoreState = Literal["none", "live", "late", "gone"]

_CONDITIONS = ("Available", "WorkersAvailable")
"""Conditions that are written in each reconciliation, with the generation that was observed."""
_SHARED = "InfrastructureReady"
"""A condition that core writes together with `Available`. If its generation is newer, `cluster` has written it."""


def core_state(cluster: Object, now: datetime, *, is_running: bool = False) -> CoreState:
    """Returns the state of Cluster API core with regard to this Cluster.

    `live`: core has observed the current generation. `late`: core managed the Cluster and has time left to observe the
    latest change, or it runs (`is_running`) and has time left to observe a new Cluster. `gone`: core has missed that
    time. `none`: core never managed the Cluster, or the function `cluster` took over, or the Cluster's annotation says
    to ignore core.
    """
    if (dig(cluster, "metadata.annotations") or {}).get(CORE_ANNOTATION) == "ignore":
        return "none"
    observed = _observed_by_core(cluster)
    if not observed:
        return "late" if is_running and is_new(cluster) and _has_time_left(cluster, now) else "none"
    if observed >= dig(cluster, "metadata.generation", 0):
        return "live"
    if _generation(cluster, _SHARED) > observed:
        return "none"
    return "late" if _has_time_left(cluster, now) else "gone"


def is_new(cluster: Object) -> bool:
    """Returns whether no controller has reconciled the Cluster yet, so that only the presence of a core decides."""
    return dig(cluster, "status.observedGeneration") is None and not deleting(cluster)


def _has_time_left(cluster: Object, now: datetime) -> bool:
    until = core_deadline(cluster)
    return until is not None and now < until


def core_deadline(cluster: Object) -> datetime | None:
    """Returns when core counts as gone; None if the time of the latest change is unknown."""
    changed = cluster_api.deleted_at(cluster) or max(_writes(cluster), default=None)
    return changed + CORE_TIMEOUT if changed is not None else None


def _generation(cluster: Object, type_: str) -> int:
    found = (get_condition(dig(cluster, "status.conditions"), type_) or {}).get("observedGeneration")
    return found if isinstance(found, int) else 0


def _observed_by_core(cluster: Object) -> int:
    """Returns the generation that core has observed; 0 if it has observed none, or others have written later."""
    if has_older_conditions_only(cluster):
        observed = dig(cluster, "status.observedGeneration", 0)
        return observed if any("f:observedGeneration" in _status_of(entry) for entry in _others(cluster)) else 0
    return max(_generation(cluster, type_) for type_ in (TOPOLOGY_RECONCILED, *_of_others(cluster)))


def _of_others(cluster: Object) -> Iterator[str]:
    """Yields the `_CONDITIONS` whose generation another field manager wrote, or which it changed after `cluster`.

    A manager owns only the fields that it changes. So a core that returns at the generation of the takeover owns
    messages and reasons, but not the generation.
    """
    own = [entry for entry in dig(cluster, "metadata.managedFields", []) if entry.get("manager") == MANAGER]
    taken_over = max((time for entry in own if (time := _status_written(entry))), default=None)
    for entry in _others(cluster):
        fields, written = _status_of(entry), _status_written(entry)
        is_newer = taken_over is not None and written is not None and written > taken_over
        conditions = {**fields.get("f:conditions", {}), **dig(fields, "f:v1beta2.f:conditions", {})}
        for type_ in _CONDITIONS:
            found = conditions.get(f'k:{{"type":"{type_}"}}', {})
            if "f:observedGeneration" in found or (found and is_newer):
                yield type_


def _others(cluster: Object) -> Iterator[Mapping[str, Any]]:
    """Yields the entries of other field managers."""
    for entry in dig(cluster, "metadata.managedFields", []):
        if not is_ours(entry.get("manager")):
            yield entry


def _status_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the fields of the status that a field manager wrote."""
    fields: Mapping[str, Any] = dig(entry, "fieldsV1.f:status", {})
    return fields


def _status_written(entry: Mapping[str, Any]) -> datetime | None:
    """Returns when a field manager last wrote to the status; None if it did not."""
    return cluster_api.timestamp(entry, "time") if _status_of(entry) else None


def _writes(cluster: Object) -> Iterator[datetime]:
    """Yields the times of the last writes of other managers to spec or status; core does not react to metadata."""
    for entry in _others(cluster):
        if not {"f:spec", "f:status"}.isdisjoint(entry.get("fieldsV1") or {}):
            time = cluster_api.timestamp(entry, "time")
            if time is not None:
                yield time
