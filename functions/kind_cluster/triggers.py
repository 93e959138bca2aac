"""The triggers of `kind_cluster`: the KINDCluster, and its Cluster when it is paused or resumed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared import profiles
from shared.api.cluster import PAUSED_ANNOTATION, PAUSING, infrastructure_ref
from shared.api.resources import CLUSTER, KIND_CLUSTER
from shared.event import Event
from shared.kube import Key, Object, deleting, has_finalizer, key_of
from shared.settings import INSTALLATION
from shared.triggers import SPEC, Triggers, Watch, annotation

FINALIZER = "kindclusters.infrastructure.cluster-k8s.io/cluster-finalizer"


def infrastructure_of(cluster: Mapping[str, Any]) -> Key | None:
    """Returns the key of the KINDCluster that a Cluster refers to; None for another kind or a bare reference."""
    reference = infrastructure_ref(cluster) or {}
    return Key(key_of(cluster).namespace, reference["name"]) if reference.get("kind") == KIND_CLUSTER.kind else None


def is_reconciled(kind_cluster: Object, _event: Event, _now: datetime) -> bool:
    """Returns whether the instance of a deleted KINDCluster is gone. Otherwise only the runtime knows its state."""
    return deleting(kind_cluster) and not has_finalizer(kind_cluster, FINALIZER)


TRIGGERS = Triggers(
    name="kind_cluster",
    profiles=profiles.KIND_CLUSTERS,
    is_reconciled=is_reconciled,
    finalizer=FINALIZER,
    watches=(
        Watch(
            KIND_CLUSTER,
            fields=(*SPEC, "metadata.ownerReferences", annotation(PAUSED_ANNOTATION)),
            changes=("add", "update"),
            filtered=True,
        ),
        Watch(
            CLUSTER,
            key=infrastructure_of,
            fields=PAUSING,
            changes=("update",),
            needs_primary=True,
        ),
    ),
    settings=(INSTALLATION,),
    local=True,  # the runtime `local` starts control planes as processes beside the function
)
