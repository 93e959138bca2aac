"""Determines from a ClusterAddon whether it is up to date, waits, or must be rolled back or removed.

A rollback is requested by an annotation that names the class to roll back from. It ends when the Cluster gets another
class or the annotation is removed. A removal is requested by an annotation of the Cluster, and ends with it.
"""

from __future__ import annotations

from shared.api import cluster as cluster_api
from shared.api.addon import reported_release
from shared.api.conditions import get_condition, is_true
from shared.api.names import REMOVE_ANNOTATION, ROLLBACK_ANNOTATION
from shared.kube import Object, dig, owned_by

PAUSED = "Paused"
"""The reason of ClusterReady while the Cluster is paused."""
ROLLED_BACK = "RolledBack"
"""The reason of HelmChartApplied while the addons are rolled back."""
REMOVED = "AddonsRemoved"
"""The reason of HelmChartApplied while the addons are removed."""


def is_up_to_date(addon: Object, cluster: Object) -> bool:
    """Returns whether the addons of the Cluster's class are applied and ready, or rolled back or removed on request."""
    if is_removal_requested(cluster):
        return has_reason(addon, REMOVED)
    if is_rollback_requested(addon, cluster):
        return is_rolled_back(addon, cluster)
    return _has_applied_class(addon, cluster) and dig(addon, "status.ready") is True


def is_awaiting_readiness(addon: Object, cluster: Object) -> bool:
    """Returns whether all objects are applied and some of them are not ready."""
    condition = get_condition(dig(addon, "status.conditions", []), "ObjectsReady") or {}
    return (
        _has_applied_class(addon, cluster)
        and condition.get("status") == "False"
        and not is_rollback_requested(addon, cluster)
        and not is_removal_requested(cluster)
    )


def is_removal_requested(cluster: Object) -> bool:
    """Returns whether the annotation of the Cluster requests the removal of its addons."""
    return bool(dig(cluster, ("metadata", "annotations", REMOVE_ANNOTATION)) == "true")


def has_reason(addon: Object, reason: str) -> bool:
    """Returns whether the condition HelmChartApplied has this reason."""
    condition = get_condition(dig(addon, "status.conditions", []), "HelmChartApplied") or {}
    return bool(condition.get("reason") == reason)


def is_rollback_requested(addon: Object, cluster: Object) -> bool:
    """Returns whether the annotation requests a rollback from the Cluster's present class."""
    rollback_from = dig(addon, ("metadata", "annotations", ROLLBACK_ANNOTATION))
    return bool(rollback_from) and rollback_from == cluster_api.class_name(cluster)


def is_rolled_back(addon: Object, cluster: Object) -> bool:
    """Returns whether the requested rollback is complete."""
    return is_rollback_requested(addon, cluster) and has_reason(addon, ROLLED_BACK)


def is_pause_reported(addon: Object, cluster: Object) -> bool:
    """Returns whether the addon reports, for the Cluster's class, that the Cluster is paused."""
    condition = get_condition(dig(addon, "status.conditions", []), "ClusterReady") or {}
    return condition.get("reason") == PAUSED and reported_release(addon) == (cluster_api.class_name(cluster) or "")


def names_another_cluster(addon: Object, cluster: Object) -> bool:
    """Returns whether the addon was created for another Cluster of the same name."""
    uid = dig(addon, "spec.clusterRef.uid")
    return bool(uid) and uid != cluster["metadata"]["uid"]


def belongs_to_earlier_cluster(addon: Object, cluster: Object) -> bool:
    """Returns whether the addon belongs to a deleted Cluster of the same name.

    The owner of an addon that was moved together with its Cluster is the new Cluster.
    """
    return names_another_cluster(addon, cluster) and not owned_by(addon, cluster)


def _has_applied_class(addon: Object, cluster: Object) -> bool:
    conditions = dig(addon, "status.conditions", [])
    return bool(
        dig(addon, "spec.clusterStack") == cluster_api.class_name(cluster)
        and not dig(addon, "spec.hook")
        and is_true(conditions, "HelmChartApplied")
        and is_true(conditions, "ClusterReady")
    )
