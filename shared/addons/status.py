"""What an addon says of itself: whether it is where its Cluster wants it, or only waits for what it applied."""

from __future__ import annotations

from shared.api import cluster as cluster_api
from shared.api.conditions import get_condition, is_true
from shared.kube import Object, dig

from . import manifest_history


def is_up_to_date(addon: Object, cluster: Object) -> bool:
    """True where what is asked for is done: the addons of the class are applied and ready, or rolled back from it."""
    if manifest_history.is_rollback_requested(addon, cluster):
        return manifest_history.is_rolled_back(addon, cluster)
    return _has_applied_class(addon, cluster) and dig(addon, "status.ready") is True


def is_awaiting_readiness(addon: Object, cluster: Object) -> bool:
    """True while everything is applied and some of it is not ready."""
    condition = get_condition(dig(addon, "status.conditions", []), "ObjectsReady") or {}
    return (
        _has_applied_class(addon, cluster)
        and condition.get("status") == "False"
        and not manifest_history.is_rollback_requested(addon, cluster)
    )


def belongs_to_earlier_cluster(addon: Object, cluster: Object) -> bool:
    """True for the addon of a Cluster that had this name before."""
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
