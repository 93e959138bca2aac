"""Starts `cluster_rollout` when a ClusterRollout changes, and when `rollout_wake` reports progress."""

from __future__ import annotations

from datetime import datetime

from shared import profiles, wake
from shared.api import cluster as cluster_api
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.conditions import READY, get_condition
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_CLASS, CLUSTER_ROLLOUT
from shared.event import Event
from shared.kube import Object, deleting, dig
from shared.settings import INSTALLATION
from shared.triggers import READ_CRDS, SPEC, Rule, Subscription, Triggers, Watch, annotation


def is_reconciled(rollout: Object, event: Event, _now: datetime) -> bool:
    """Returns whether the status shows that all Clusters have the target and are ready."""
    if deleting(rollout) or cluster_api.is_paused(rollout):
        return True
    ready = get_condition(dig(rollout, "status.conditions"), READY) or {}
    return (
        event.change is not None
        and ready.get("status") == "True"
        and ready.get("observedGeneration") == dig(rollout, "metadata.generation")
    )


TRIGGERS = Triggers(
    name="cluster_rollout",
    profiles=profiles.ADDONS,
    watches=(
        Watch(
            CLUSTER_ROLLOUT,
            fields=(*SPEC, annotation(PAUSED_ANNOTATION)),
            changes=("add", "update"),
            filtered=True,
        ),
    ),
    subscriptions=(Subscription(wake.CHANGED),),
    is_reconciled=is_reconciled,
    rules=(
        Rule(CLUSTER_ROLLOUT.group, (CLUSTER_ROLLOUT.plural,), ("list",)),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("list", "patch")),
        Rule(CLUSTER.group, (CLUSTER_CLASS.plural,), ("get",)),
        Rule(CLUSTER_ADDON.group, (CLUSTER_ADDON.plural,), ("list",)),
        READ_CRDS,
    ),
    settings=(INSTALLATION,),
)
