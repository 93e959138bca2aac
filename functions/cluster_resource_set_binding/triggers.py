"""Starts `cluster_resource_set_binding` when a Cluster is deleted."""

from __future__ import annotations

from datetime import datetime

from shared import profiles
from shared.api.resources import CLUSTER, CLUSTER_RESOURCE_SET_BINDING
from shared.event import Event
from shared.kube import Object, deleting
from shared.settings import INSTALLATION
from shared.triggers import FIND_CONTROLLERS, Rule, Triggers, Watch


def is_reconciled(_binding: Object, event: Event, _now: datetime) -> bool:
    """Returns whether the event shows no deletion of a Cluster. A resync looks for deletions whose events were lost."""
    if event.kind == CLUSTER.kind:
        return event.change != "delete" and event.object is not None and not deleting(event.object)
    return True


TRIGGERS = Triggers(
    name="cluster_resource_set_binding",
    profiles=profiles.CLUSTERS,
    watches=(
        Watch(CLUSTER_RESOURCE_SET_BINDING, fields=("metadata.deletionTimestamp",), changes=("add", "update")),
        Watch(
            CLUSTER,
            fields=("metadata.deletionTimestamp",),
            changes=("update", "delete"),
            needs_primary=True,
            filtered=True,
        ),
    ),
    is_reconciled=is_reconciled,
    reports=False,
    settings=(INSTALLATION,),
    rules=(
        Rule(CLUSTER_RESOURCE_SET_BINDING.group, (CLUSTER_RESOURCE_SET_BINDING.plural,), ("delete",)),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
        *FIND_CONTROLLERS,
    ),
)
