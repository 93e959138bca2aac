"""Decides whether a ClusterAddon is reconciled, from its status and the object in the event, without a request."""

from __future__ import annotations

from datetime import datetime

from shared import watch_filter
from shared.addons.owner import OWNER
from shared.addons.status import (
    REMOVED,
    ROLLED_BACK,
    has_reason,
    is_pause_reported,
    is_up_to_date,
    names_another_cluster,
)
from shared.api import cluster as cluster_api
from shared.api.addon import reported_release
from shared.api.conditions import READY, is_true
from shared.api.names import ADDON_FINALIZER, ROLLBACK_ANNOTATION
from shared.api.resources import CLUSTER, SECRET
from shared.applier.policy import Policy, PolicyError
from shared.event import Event
from shared.kube import Object, deleting, dig, has_finalizer

_ROLLBACK = ("metadata", "annotations", ROLLBACK_ANNOTATION)


def is_reconciled(addon: Object, event: Event, _now: datetime) -> bool:
    """Returns whether the addons are applied; if the event contains the Cluster, for its class."""
    if deleting(addon):
        return not has_finalizer(addon, ADDON_FINALIZER)
    if event.kind == CLUSTER.kind:
        cluster = event.object
        if cluster is None or event.change == "delete":
            return False
        if cluster_api.is_paused(cluster):
            return is_pause_reported(addon, cluster)
        return (
            is_up_to_date(addon, cluster)
            and has_finalizer(addon, ADDON_FINALIZER)
            and not names_another_cluster(addon, cluster)
            and watch_filter.is_same(addon, cluster)
            and _has_valid_policy(cluster, addon)
        )
    # Events about other objects need not check the Cluster, because its changes have events of their own.
    return event.kind != SECRET.kind and _looks_up_to_date(addon) and _has_valid_policy(addon)


def _looks_up_to_date(addon: Object) -> bool:
    """Returns whether the addon is up to date by its own status, without the Cluster."""
    if not has_finalizer(addon, ADDON_FINALIZER):
        return False
    conditions, rollback_from = dig(addon, "status.conditions", []), dig(addon, _ROLLBACK)
    if has_reason(addon, REMOVED):
        return True
    if rollback_from and rollback_from == reported_release(addon):
        return has_reason(addon, ROLLED_BACK)
    return (
        dig(addon, "status.ready") is True
        and is_true(conditions, READY)
        and bool(dig(addon, "spec.clusterStack"))
        and not dig(addon, "spec.hook")
    )


def _has_valid_policy(*annotated: Object) -> bool:
    """Returns whether the policy annotations are valid. An error must be reported even if the addons are applied."""
    try:
        Policy.of(OWNER, *annotated)
    except PolicyError:
        return False
    return True
