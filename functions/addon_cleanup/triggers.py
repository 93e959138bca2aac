"""What starts `addon_cleanup`: the hook on a ClusterAddon, and the Cluster, which the sweep sends while it is going."""

from __future__ import annotations

from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.triggers import Rule, Triggers, Watch

TRIGGERS = Triggers(
    name="addon_cleanup",
    watches=(
        Watch(CLUSTER_ADDON, fields=("spec.hook",), changes=("add", "update")),
        Watch(
            CLUSTER, key=addon_of, fields=("metadata.deletionTimestamp", "metadata.annotations"), changes=("update",)
        ),
    ),
    rules=(Rule("", ("secrets",), ("get",)),),  # kubeconfigs
)
