"""Starts `rollout_wake` when the readiness, topology or labels of a Cluster change, its addons, or a ClusterRollout.

All changes in a namespace have one key, so that many of them become one event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared import profiles
from shared.api import cluster as cluster_api
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.conditions import READY, get_condition
from shared.api.readiness import topology_failed, why_not_ready
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_ROLLOUT
from shared.kube import Key, dig, key_of
from shared.triggers import READ_CRDS, Referrer, Rule, Triggers, Watch, annotation
from shared.wake import CHANGED


def namespace_of(obj: Mapping[str, Any]) -> Key:
    """Returns the key that stands for all ClusterRollouts of the object's namespace."""
    return Key(key_of(obj).namespace, "")


def relevant_in_cluster(cluster: Mapping[str, Any]) -> object:
    """Returns the values of a Cluster on which a ClusterRollout depends; of the conditions only what follows."""
    metadata = [dig(cluster, f"metadata.{name}") for name in ("generation", "deletionTimestamp", "labels")]
    return [*metadata, cluster_api.is_paused(cluster), not why_not_ready(cluster), topology_failed(cluster)]


def relevant_in_addon(addon: Mapping[str, Any]) -> object:
    """Returns the values of a ClusterAddon on which a ClusterRollout depends."""
    ready = get_condition(dig(addon, "status.conditions"), READY) or {}
    return [dig(addon, "spec.clusterStack"), ready.get("status"), ready.get("severity")]


def _namespaces(rollout: Mapping[str, Any]) -> Iterable[Key]:
    return [namespace_of(rollout)]


_REFERRERS = (Referrer(CLUSTER_ROLLOUT, _namespaces),)
"""Without a ClusterRollout in the namespace no change is delivered."""

TRIGGERS = Triggers(
    name="rollout_wake",
    profiles=profiles.ADDONS,
    watches=(
        Watch(
            CLUSTER,
            key=namespace_of,
            fields=("metadata.generation", "metadata.labels", annotation(PAUSED_ANNOTATION), "status.conditions"),
            digest=relevant_in_cluster,
            referenced_by=_REFERRERS,
        ),
        Watch(
            CLUSTER_ADDON,
            key=namespace_of,
            fields=("spec.clusterStack", "status.conditions"),
            digest=relevant_in_addon,
            referenced_by=_REFERRERS,
        ),
        Watch(CLUSTER_ROLLOUT, key=namespace_of, fields=("metadata.generation", annotation(PAUSED_ANNOTATION))),
    ),
    primary_kinds=(),
    rules=(Rule(CLUSTER_ROLLOUT.group, (CLUSTER_ROLLOUT.plural,), ("list",)), READ_CRDS),
    emits=(CHANGED,),
    reports=False,
)
