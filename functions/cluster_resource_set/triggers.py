"""Starts `cluster_resource_set` when a ClusterResourceSet changes, or one of its Clusters or sources."""

from __future__ import annotations

from datetime import datetime

from shared import profiles, wake
from shared.api.cluster import PAUSED_ANNOTATION, is_paused
from shared.api.conditions import get_condition, is_true
from shared.api.resource_set import FINALIZER
from shared.api.resources import CLUSTER, CLUSTER_RESOURCE_SET, CLUSTER_RESOURCE_SET_BINDING
from shared.event import Event
from shared.kube import Object, deleting, dig, has_finalizer
from shared.settings import INSTALLATION, NETWORK
from shared.triggers import FIND_CONTROLLERS, SPEC, Rule, Subscription, Triggers, Watch, annotation


def is_reconciled(resource_set: Object, event: Event, _now: datetime) -> bool:
    """Returns whether the status shows that everything is applied, or that the set is paused.

    An event that is about no change of the set itself is about a change of something that the status does not show.
    """
    conditions = dig(resource_set, "status.conditions", [])
    if is_paused(resource_set):
        return is_true(conditions, "Paused")
    applied = get_condition(conditions, "ResourcesApplied") or {}
    return (
        event.change is not None
        and not deleting(resource_set)
        and has_finalizer(resource_set, FINALIZER)
        and (get_condition(conditions, "Paused") or {}).get("status") == "False"
        and applied.get("status") == "True"
        and applied.get("observedGeneration") == dig(resource_set, "metadata.generation")
    )


TRIGGERS = Triggers(
    name="cluster_resource_set",
    profiles=profiles.CLUSTERS,
    watches=(
        Watch(
            CLUSTER_RESOURCE_SET,
            fields=(*SPEC, annotation(PAUSED_ANNOTATION)),
            changes=("add", "update"),
            filtered=True,
        ),
    ),
    subscriptions=(Subscription(wake.CHANGED),),
    is_reconciled=is_reconciled,
    finalizer=FINALIZER,
    settings=(INSTALLATION, NETWORK),
    rules=(
        Rule(CLUSTER_RESOURCE_SET.group, (CLUSTER_RESOURCE_SET.plural,), ("patch",)),
        Rule(
            CLUSTER_RESOURCE_SET_BINDING.group,
            (CLUSTER_RESOURCE_SET_BINDING.plural,),
            ("get", "list", "create", "patch", "delete"),
        ),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("list",)),
        Rule("", ("secrets", "configmaps"), ("get", "patch")),  # sources and their owners; kubeconfigs
        *FIND_CONTROLLERS,
    ),
)
