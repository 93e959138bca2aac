"""Starts `addon_create` when a Cluster gets a class, or a ClusterAddon is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import profiles
from shared.api import cluster as cluster_api
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.event import is_reference
from shared.kube import Key, dig
from shared.releases.naming import ReleaseName
from shared.settings import INSTALLATION
from shared.triggers import Rule, Triggers, Watch


def addon_to_create(cluster: Mapping[str, Any]) -> Key | None:
    """Returns the key of the ClusterAddon to create for a Cluster; None if the Cluster needs none.

    The key is also returned for a reference, which does not show whether the Cluster needs one.
    """
    return addon_of(cluster) if is_reference(cluster) or needs_addon(cluster) else None


def needs_addon(cluster: Mapping[str, Any]) -> bool:
    """Returns whether the class of the Cluster belongs to a cluster stack, and the Cluster is not paused."""
    release = ReleaseName.from_class_name(cluster_api.class_name(cluster) or "")
    return release is not None and not cluster_api.is_paused(cluster)


def creation_digest(cluster: Mapping[str, Any]) -> object:
    """Returns what an update must change to start the function: whether the Cluster needs an addon, or its uid."""
    return [needs_addon(cluster), dig(cluster, "metadata.uid")]


TRIGGERS = Triggers(
    name="addon_create",
    profiles=profiles.ADDONS,
    watches=(
        Watch(CLUSTER_ADDON, changes=("delete",)),
        Watch(
            CLUSTER,
            key=addon_to_create,
            fields=(
                "spec.topology.class",
                "spec.topology.classRef",
                "spec.paused",
                "metadata.annotations",
                "metadata.uid",
            ),
            digest=creation_digest,
            changes=("add", "update"),
            creates_primary=True,
            filtered=True,
        ),
    ),
    is_reconciled=lambda _addon, _event, _now: True,  # a ClusterAddon that exists needs nothing from this function
    rules=(
        Rule(CLUSTER_ADDON.group, (CLUSTER_ADDON.plural,), ("get", "create")),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
    ),
    settings=(INSTALLATION,),
)
