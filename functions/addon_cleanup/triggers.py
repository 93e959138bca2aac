"""Starts `addon_cleanup` when a hook requests it on a ClusterAddon, or the Cluster is being deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import profiles
from shared.api.hooks import BEFORE_CLUSTER_DELETE
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.event import is_reference
from shared.kube import Key, deleting, dig, key_of
from shared.settings import HOOKS, INSTALLATION, NETWORK
from shared.triggers import Rule, Triggers, Watch


def cleanup_requested(addon: Mapping[str, Any]) -> Key | None:
    """Returns the key of the ClusterAddon if a hook requests its clean-up; a reference may be to such an addon."""
    return key_of(addon) if is_reference(addon) or dig(addon, "spec.hook") == BEFORE_CLUSTER_DELETE else None


def addon_of_deleted(cluster: Mapping[str, Any]) -> Key | None:
    """Returns the key of the ClusterAddon if its Cluster is being deleted; a reference may be to such a Cluster."""
    return addon_of(cluster) if is_reference(cluster) or deleting(cluster) else None


TRIGGERS = Triggers(
    name="addon_cleanup",
    profiles=profiles.ADDONS,
    watches=(
        Watch(CLUSTER_ADDON, key=cleanup_requested, fields=("spec.hook",), changes=("add", "update")),
        Watch(
            CLUSTER,
            key=addon_of_deleted,
            fields=("metadata.deletionTimestamp", "metadata.annotations"),
            changes=("update",),
            needs_primary=True,
            filtered=True,
        ),
    ),
    is_reconciled=lambda addon, _event, _now: bool(dig(addon, "spec.hook") != BEFORE_CLUSTER_DELETE),
    rules=(
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
        Rule("", ("secrets",), ("get",)),  # kubeconfigs
    ),
    settings=(INSTALLATION, HOOKS, NETWORK),
)
