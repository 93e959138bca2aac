"""What is read for a decision about one clean-up; nothing of the workload cluster unless there is one to be done."""

from __future__ import annotations

from dataclasses import dataclass

from shared.api.cluster import is_paused
from shared.api.hooks import BEFORE_DELETE, cleanup_enabled, refers_to
from shared.api.resources import CLUSTER
from shared.applier.connection import ConnectionFailed, connect_workload
from shared.clients import Clients, ClusterClients
from shared.kube import ApiError, Key, Object, deleting, dig, key_of

from .leftovers import CLAIM, POD, SERVICE, VOLUME, Leftovers, leftovers


@dataclass(frozen=True)
class Observed:
    addon: Object | None
    cluster: Object | None = None
    due: bool = False
    """The Cluster is being deleted, and its clean-up was asked for."""
    workload: ClusterClients | None = None
    found: Leftovers | ConnectionFailed | None = None


def observe(clients: Clients, key: Key, addon: Object | None) -> Observed:
    if addon is None or dig(addon, "spec.hook") != BEFORE_DELETE:
        return Observed(addon)
    cluster = clients.management.find(CLUSTER, Key(key.namespace, dig(addon, "spec.clusterRef.name") or "-"))
    # Anybody who can reach the hooks can ask for a clean-up: what counts is that the Cluster is really going.
    if cluster is None or not deleting(cluster) or not refers_to(addon, cluster):
        return Observed(addon, cluster)
    if is_paused(cluster) or not cleanup_enabled(cluster):
        return Observed(addon, cluster)
    reached = connect_workload(clients, key_of(cluster))
    if isinstance(reached, ConnectionFailed):
        return Observed(addon, cluster, True, None, reached)
    return Observed(addon, cluster, True, reached.cluster, _look(reached.cluster))


def _look(workload: ClusterClients) -> Leftovers | ConnectionFailed:
    list_ = workload.client.list
    try:
        claims = list(list_(CLAIM))
        return leftovers(list_(SERVICE), claims, list_(VOLUME), list_(POD) if claims else ())
    except ApiError as error:
        return ConnectionFailed(f"the workload API server does not tell what is left: {error}")
