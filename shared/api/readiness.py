"""Whether a Cluster is ready with its present spec, by the conditions that Cluster API reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared.kube.resources import Object, dig

from .cluster import ROLLING_OUT, TOPOLOGY_RECONCILED, conditions
from .conditions import READY, get_condition, is_true

_FAILURES: Final = ("ReconcileFailed", "ClusterClassNotReconciled", "TopologyReconcileFailed")
"""The reasons of a topology that cannot be reconciled; the last one is from before Cluster API 1.9."""


def why_not_ready(cluster: Mapping[str, Any]) -> str:
    """Returns why a Cluster is not ready with its present spec; empty if it is.

    A Cluster is ready if it is available, its topology is reconciled, and no Machines are being replaced. Without a
    topology controller no program sets the condition about the topology.
    """
    found = conditions(cluster)
    available = get_condition(found, "Available") or get_condition(found, READY)  # before Cluster API 1.9
    if available is None:
        return "no program has set the condition Available yet"
    topology = get_condition(found, TOPOLOGY_RECONCILED)
    for condition in filter(None, (topology, available)):
        if condition.get("status") != "True":
            return text(condition)
        if not _is_current(cluster, condition):
            return f"{condition['type']} does not reflect the current spec yet"
    return text(get_condition(found, ROLLING_OUT) or {}) if is_true(found, ROLLING_OUT) else ""


def topology_failed(cluster: Mapping[str, Any]) -> bool:
    """Returns whether the topology controller reports that it cannot reconcile the present spec."""
    topology = get_condition(conditions(cluster), TOPOLOGY_RECONCILED) or {}
    failed = topology.get("status") == "False" and topology.get("reason") in _FAILURES
    return failed and _is_current(cluster, topology)


def text(condition: Mapping[str, Any]) -> str:
    """Returns type, reason and message of a condition."""
    return ": ".join(str(condition[part]) for part in ("type", "reason", "message") if condition.get(part))


def _is_current(cluster: Mapping[str, Any], condition: Object) -> bool:
    generation = dig(cluster, "metadata.generation")
    return bool(condition.get("observedGeneration", generation) == generation)
