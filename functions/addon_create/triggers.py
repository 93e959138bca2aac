"""What starts `addon_create`: a Cluster that gets a class, a ClusterAddon that is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import profiles
from shared.api import cluster as cluster_api
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.kube import dig
from shared.triggers import Rule, Triggers, Watch


def relevant_fields(cluster: Mapping[str, Any]) -> object:
    """Returns the values of which an update must change at least one; of the annotations only whether they pause."""
    name, namespace = cluster_api.class_name(cluster), cluster_api.class_namespace(cluster)
    return [name, namespace, cluster_api.is_paused(cluster), dig(cluster, "metadata.uid")]


TRIGGERS = Triggers(
    name="addon_create",
    profiles=profiles.ADDONS,
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
            digest=relevant_fields,
            changes=("add", "update"),
        ),
    ),
    is_reconciled=lambda _addon, _event: True,  # a ClusterAddon that exists needs nothing from this function
    rules=(
        Rule(CLUSTER_ADDON.group, (CLUSTER_ADDON.plural,), ("get", "create")),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
    ),
)
