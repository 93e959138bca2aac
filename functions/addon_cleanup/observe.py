"""Reads the inputs of a decision about one clean-up; the workload cluster only if a clean-up is due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from shared import watch_filter
from shared.api.cluster import is_paused
from shared.api.hooks import BEFORE_CLUSTER_DELETE, HookDeadlines, cleanup_enabled, refers_to
from shared.api.resources import CLUSTER, POD, SERVICE
from shared.applier.connection import ConnectionFailed, connect_workload
from shared.clients import Clients, ClusterClients
from shared.kube import ApiError, Key, Object, deleting, dig, key_of
from shared.kube.responses import understood
from shared.runtime import Request

from .leftovers import CLAIM, VOLUME, Leftovers, leftovers


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one clean-up; `leftovers` are only read if the clean-up is due."""

    addon: Object | None
    cluster: Object | None = None
    due: bool = False
    """Whether the Cluster is being deleted, and a hook requested its clean-up."""
    workload_cluster: ClusterClients | None = None
    leftovers: Leftovers | ConnectionFailed | None = None
    deadline: timedelta = HookDeadlines.delete
    """The time after which the clean-up gives up."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the Cluster, and the leftovers in its workload cluster if a clean-up is due."""
    key, addon = request.key, request.primary
    if addon is None or dig(addon, "spec.hook") != BEFORE_CLUSTER_DELETE:
        return Observed(addon)
    cluster = clients.management.find(CLUSTER, Key(key.namespace, dig(addon, "spec.clusterRef.name") or "-"))
    watch_filter.require(cluster or addon)
    # Anyone who can reach the hooks can request a clean-up, so the Cluster's own deletion decides.
    if cluster is None or not deleting(cluster) or not refers_to(addon, cluster):
        return Observed(addon, cluster)
    if is_paused(cluster) or not cleanup_enabled(cluster):
        return Observed(addon, cluster)
    deadline = HookDeadlines.from_env().delete
    connection = connect_workload(clients, key_of(cluster))
    if isinstance(connection, ConnectionFailed):
        return Observed(addon, cluster, True, None, connection, deadline)
    return Observed(addon, cluster, True, connection.cluster, _read_leftovers(connection.cluster), deadline)


def _read_leftovers(cluster: ClusterClients) -> Leftovers | ConnectionFailed:
    list_ = cluster.client.list
    try:
        with understood("list of objects to clean up"):
            return leftovers(list_(SERVICE), list_(CLAIM), list_(VOLUME), list_(POD))
    except ApiError as error:
        return ConnectionFailed(f"the workload API server does not list the objects to clean up: {error}")
