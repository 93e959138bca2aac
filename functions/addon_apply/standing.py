"""What an addon says of itself: whether it is where its Cluster wants it, or only waits for what it applied."""

from __future__ import annotations

from shared.api import cluster as cluster_api
from shared.api.conditions import get_condition, is_true
from shared.api.names import ADDON_FINALIZER, ROLLBACK
from shared.api.resources import CLUSTER, SECRET
from shared.applier.policy import Policy, PolicyError
from shared.event import Event
from shared.kube import Object, deleting, dig, has_finalizer

from . import history


def settled(addon: Object, event: Event) -> bool:
    """True where the addons are applied and the event's Cluster, if it carries one, still asks for the same."""
    if deleting(addon):
        return not has_finalizer(addon, ADDON_FINALIZER)
    if event.kind == CLUSTER.kind:
        cluster = event.object
        if cluster is None or event.change == "delete" or cluster_api.is_paused(cluster):
            return False
        return at_rest(addon, cluster) and not is_anothers(addon, cluster) and _is_sound(cluster, addon)
    # Any other event leaves the wanted class as it is, and a Cluster that changed sends one of its own.
    return event.kind != SECRET.kind and _looks_at_rest(addon) and _is_sound(addon)


def at_rest(addon: Object, cluster: Object) -> bool:
    """True where what is asked for is done: the addons of the class are applied and ready, or rolled back from it."""
    if history.asked(addon, cluster):
        return history.holds(addon, cluster)
    return _at_class(addon, cluster) and dig(addon, "status.ready") is True


def awaits_readiness(addon: Object, cluster: Object) -> bool:
    """True while everything is applied and some of it is not ready."""
    condition = get_condition(dig(addon, "status.conditions", []), "ObjectsReady") or {}
    return _at_class(addon, cluster) and condition.get("status") == "False" and not history.asked(addon, cluster)


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


def _looks_at_rest(addon: Object) -> bool:
    """As far as can be told without the Cluster."""
    return (
        dig(addon, "status.ready") is True
        and bool(dig(addon, "spec.clusterStack"))
        and not dig(addon, "spec.hook")
        and not dig(addon, ("metadata", "annotations", ROLLBACK))
        and has_finalizer(addon, ADDON_FINALIZER)
    )


def _is_sound(*annotated: Object) -> bool:
    """Whether the policy says something: if not, people should hear of it, whatever else is well."""
    try:
        Policy.of(*annotated)
    except PolicyError:
        return False
    return True
