"""What starts `addon_create`: a Cluster getting a class, a ClusterAddon vanishing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.kube import Key, key_of
from shared.triggers import Rule, Triggers, Watch

PREFIX = "cluster-addon-"


def addon_of_cluster(cluster: Mapping[str, Any]) -> Key:
    key = key_of(cluster)
    return Key(key.namespace, PREFIX + key.name)


TRIGGERS = Triggers(
    name="addon_create",
    watches=(
        Watch(CLUSTER_ADDON, changes=("delete",)),
        Watch(
            CLUSTER,
            key=addon_of_cluster,
            fields=(
                "spec.topology.class",
                "spec.topology.classRef",
                "metadata.uid",
                "metadata.deletionTimestamp",
            ),
            changes=("add", "update"),
        ),
    ),
    rules=(
        Rule(CLUSTER_ADDON.group, (CLUSTER_ADDON.plural,), ("get", "create")),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
    ),
)
