"""The Clusters of a management cluster: all in short, or one in detail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.api.conditions import get_condition
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.kube import Client, Key, Object, deleting, dig, key_of

from .describe.cluster_objects import gather
from .describe.document import document, waiting_condition
from .failure import Failure

_CREATION = ("InfrastructureReady", "ControlPlaneInitialized", "ControlPlaneAvailable", "Available")


@dataclass(frozen=True)
class ClusterSummary:
    """A Cluster in short. Texts are empty, and `addons_ready` is None, where the Cluster has no such thing."""

    key: Key
    phase: str
    class_name: str
    kubernetes: str
    applied_class: str
    """The class whose addons are applied."""
    addons_ready: bool | None
    paused: bool
    deleting: bool
    waiting_for: str = ""
    """The condition that the Cluster or its addons wait for, with its message."""
    since: str = ""
    """The time at which this condition got its status, as Kubernetes writes it."""


def list_clusters(management: Client, namespace: str = "") -> list[ClusterSummary]:
    """Returns the Clusters of a namespace, by default of all, in the order of their keys. Raises `ApiError`."""
    addons = {key_of(addon): addon for addon in management.list(CLUSTER_ADDON, namespace)}
    return summarize(management.list(CLUSTER, namespace), addons)


def summarize(clusters: Iterable[Object], addons: dict[Key, Object]) -> list[ClusterSummary]:
    """Returns the summaries of Clusters with these ClusterAddons by key."""
    return [_summary(cluster, addons.get(addon_of(cluster))) for cluster in sorted(clusters, key=key_of)]


def _summary(cluster: Object, addon: Object | None) -> ClusterSummary:
    waiting = waiting_condition(addon or {}) or _failing(cluster) or {}
    return ClusterSummary(
        key=key_of(cluster),
        phase=dig(cluster, "status.phase", ""),
        class_name=cluster_api.class_name(cluster) or "",
        kubernetes=dig(cluster, "spec.topology.version", ""),
        applied_class=dig(addon, "spec.clusterStack", ""),
        addons_ready=dig(addon, "status.ready") is True if addon else None,
        paused=cluster_api.is_paused(cluster),
        deleting=deleting(cluster),
        waiting_for=": ".join(str(waiting[part]) for part in ("type", "message") if waiting.get(part)),
        since=str(waiting.get("lastTransitionTime") or ""),
    )


def _failing(cluster: Object) -> Object | None:
    """Returns the first condition of the Cluster's creation that is not true."""
    conditions = dig(cluster, "status.conditions")
    found = (get_condition(conditions, type) for type in _CREATION)
    return next((condition for condition in found if condition and condition.get("status") != "True"), None)


def get_cluster(management: Client, key: Key) -> Object:
    """Returns a Cluster. Raises `Failure` if it does not exist."""
    found = management.find(CLUSTER, key)
    if found is None:
        raise Failure(f"Cluster {key} does not exist")
    return found


def describe(management: Client, cluster: Object, now: datetime) -> Object:
    """Returns the document about a Cluster, its addons with their history, and its events; see `document`."""
    return document(gather(management, cluster), now)
