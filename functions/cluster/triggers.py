"""The triggers of `cluster`: the Cluster, its infrastructure object, and the deletion of its ClusterAddon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import profiles
from shared.api.cluster import CLUSTER_NAME_LABEL, OK_TO_DELETE_ANNOTATION, PAUSING
from shared.api.resources import CLUSTER, CLUSTER_ADDON, KIND_CLUSTER
from shared.kube import Key, key_of, owners
from shared.kube.resources import dig
from shared.triggers import READ_CRDS, Rule, Triggers, Watch, annotation, label

from .reconciled import is_reconciled


def owning_cluster(obj: Mapping[str, Any]) -> Key:
    """Returns the key of the Cluster that an object belongs to.

    The Cluster is found by owner reference, else by label; before either is set, it is the one of the same name.
    """
    key = key_of(obj)
    for reference in owners(obj, CLUSTER.kind, CLUSTER.group):
        return Key(key.namespace, reference["name"])
    return Key(key.namespace, (dig(obj, "metadata.labels") or {}).get(CLUSTER_NAME_LABEL) or key.name)


TRIGGERS = Triggers(
    name="cluster",
    profiles=profiles.CLUSTERS,
    watches=(
        # Finalizers are left out: the event of adding ours is not needed. The sweep restores one that was removed.
        Watch(
            CLUSTER,
            fields=(
                "metadata.generation",
                "metadata.deletionTimestamp",
                *PAUSING,
                annotation(OK_TO_DELETE_ANNOTATION),
            ),
        ),
        Watch(
            KIND_CLUSTER,
            key=owning_cluster,
            fields=(
                "spec.controlPlaneEndpoint",
                "status",
                "metadata.ownerReferences",
                label(CLUSTER_NAME_LABEL),
                "metadata.deletionTimestamp",
            ),
            needs_primary=True,
        ),
        Watch(CLUSTER_ADDON, key=owning_cluster, changes=("delete",), needs_primary=True),
    ),
    is_reconciled=is_reconciled,
    rules=(
        Rule(CLUSTER.group, ("clusters",), ("patch",)),
        # A Cluster may refer to objects of any provider; a provider with another group needs a rule of its own.
        Rule("infrastructure.cluster.x-k8s.io", ("*",), ("get", "list", "patch", "delete")),
        Rule("controlplane.cluster.x-k8s.io", ("*",), ("get", "list", "patch", "delete")),
        Rule(KIND_CLUSTER.group, (KIND_CLUSTER.plural,), ("get", "list", "patch", "delete")),
        Rule(
            CLUSTER.group,
            ("machines", "machinedeployments", "machinesets", "machinepools"),
            ("get", "list", "delete"),
        ),
        Rule(CLUSTER_ADDON.group, (CLUSTER_ADDON.plural,), ("get", "list", "delete")),
        Rule("", ("secrets",), ("get", "list", "delete")),
        READ_CRDS,
    ),
)
