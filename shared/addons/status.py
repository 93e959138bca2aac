"""Reads from a ClusterAddon's status whether it is up to date with its Cluster, or waits for readiness."""

from __future__ import annotations

from shared.api import cluster as cluster_api
from shared.api.conditions import get_condition, is_true
from shared.kube import Object, dig

from . import manifest_history


def is_up_to_date(addon: Object, cluster: Object) -> bool:
    """Returns whether the addons of the Cluster's class are applied and ready, or rolled back from it if requested."""
    if manifest_history.is_rollback_requested(addon, cluster):
        return manifest_history.is_rolled_back(addon, cluster)
    return _has_applied_class(addon, cluster) and dig(addon, "status.ready") is True


def is_awaiting_readiness(addon: Object, cluster: Object) -> bool:
    """Returns whether all objects are applied and some of them are not ready."""
    condition = get_condition(dig(addon, "status.conditions", []), "ObjectsReady") or {}
    return (
        _has_applied_class(addon, cluster)
        and condition.get("status") == "False"
        and not manifest_history.is_rollback_requested(addon, cluster)
    )


def belongs_to_earlier_cluster(addon: Object, cluster: Object) -> bool:
    """Returns whether the addon belongs to a deleted Cluster of the same name."""
    uid = dig(addon, "spec.clusterRef.uid")
    return bool(uid) and uid != cluster["metadata"]["uid"]


def _has_applied_class(addon: Object, cluster: Object) -> bool:
    conditions = dig(addon, "status.conditions", [])
    return bool(
        dig(addon, "spec.clusterStack") == cluster_api.class_name(cluster)
        and not dig(addon, "spec.hook")
        and is_true(conditions, "HelmChartApplied")
        and is_true(conditions, "ClusterReady")
    )
