"""What starts `addon_create`: a Cluster getting a class, a ClusterAddon vanishing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api import cluster as cluster_api
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.kube import dig
from shared.triggers import Rule, Triggers, Watch


def wanted(cluster: Mapping[str, Any]) -> object:
    """What decides on an addon: of the annotations only whether the Cluster is paused."""
    name, namespace = cluster_api.class_name(cluster), cluster_api.class_namespace(cluster)
    return [name, namespace, cluster_api.is_paused(cluster), dig(cluster, "metadata.uid")]


TRIGGERS = Triggers(
    name="addon_create",
    watches=(
        Watch(CLUSTER_ADDON, changes=("delete",)),
        Watch(
            CLUSTER,
            key=addon_of,
            fields=(
                "spec.topology.class",
                "spec.topology.classRef",
                "spec.paused",
                "metadata.annotations",
                "metadata.uid",
            ),
            digest=wanted,
            changes=("add", "update"),
        ),
    ),
    rules=(
        Rule(CLUSTER_ADDON.group, (CLUSTER_ADDON.plural,), ("get", "create")),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
    ),
)
