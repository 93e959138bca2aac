"""What an addon says of itself: whether it is where its Cluster wants it, or only waits for what it applied."""

from __future__ import annotations

from shared.api import cluster as cluster_api
from shared.api.conditions import get_condition, is_true
from shared.kube import Object, dig

from . import manifest_history


def at_rest(addon: Object, cluster: Object) -> bool:
    """True where what is asked for is done: the addons of the class are applied and ready, or rolled back from it."""
    if manifest_history.asked(addon, cluster):
        return manifest_history.holds(addon, cluster)
    return _at_class(addon, cluster) and dig(addon, "status.ready") is True


def awaits_readiness(addon: Object, cluster: Object) -> bool:
    """True while everything is applied and some of it is not ready."""
    condition = get_condition(dig(addon, "status.conditions", []), "ObjectsReady") or {}
    return (
        _at_class(addon, cluster) and condition.get("status") == "False" and not manifest_history.asked(addon, cluster)
    )


def is_anothers(addon: Object, cluster: Object) -> bool:
    """True for the addon of a Cluster that had this name before."""
    uid = dig(addon, "spec.clusterRef.uid")
    return bool(uid) and uid != cluster["metadata"]["uid"]


def _at_class(addon: Object, cluster: Object) -> bool:
    conditions = dig(addon, "status.conditions", [])
    return bool(
        dig(addon, "spec.clusterStack") == cluster_api.class_name(cluster)
        and not dig(addon, "spec.hook")
        and is_true(conditions, "HelmChartApplied")
        and is_true(conditions, "ClusterReady")
    )
