"""What starts `addon_create`: a Cluster getting a class, a ClusterAddon vanishing."""

from __future__ import annotations

from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.triggers import Rule, Triggers, Watch

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
            changes=("add", "update"),
        ),
    ),
    rules=(
        Rule(CLUSTER_ADDON.group, (CLUSTER_ADDON.plural,), ("get", "create")),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
    ),
)
