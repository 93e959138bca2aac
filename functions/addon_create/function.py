"""The function `addon_create`: creates the ClusterAddon of each Cluster whose class comes from a cluster stack.

The primary object is the ClusterAddon. If it exists, as for most events, the function reads nothing else. A new Cluster
is taken from its event. Any sender can forge such an event. Therefore `addon_apply`, which reads the Cluster, deletes
the ClusterAddon of a Cluster that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shared import watch_filter
from shared.api import cluster as cluster_api
from shared.api.names import ADDON_FINALIZER, ADDON_PREFIX, SUCCESSOR_ANNOTATION
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.clients import Clients
from shared.effects import Create, Results
from shared.event import Event
from shared.kube import Key, Object, deleting, owner_reference
from shared.releases.events import request_release
from shared.releases.naming import ReleaseName
from shared.runtime import Decision, Function, Request

from .triggers import TRIGGERS

MAX_AGE_WITHOUT_READ = timedelta(seconds=10)
"""The age of a Cluster up to which the function takes it from the event of its creation, without a read. Such an event
is at most as old as the Cluster, so it is hardly more outdated than the response to a slow read."""


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision; `cluster` is only read if the ClusterAddon `key` does not exist."""

    key: Key
    addon: Object | None
    cluster: Object | None = None
    is_new: bool = False
    """Whether the Cluster is new, so that it has had no other ClusterAddon."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the Cluster if its ClusterAddon is missing; a new Cluster is taken from the event of its creation."""
    key, addon = request.key, request.primary
    if addon is not None or not key.name.startswith(ADDON_PREFIX):
        return Observed(key, addon)
    cluster = new_cluster(request.event, datetime.now(UTC))
    is_new = cluster is not None
    if cluster is None:
        cluster = clients.management.find(CLUSTER, Key(key.namespace, key.name.removeprefix(ADDON_PREFIX)))
    if cluster is not None:
        watch_filter.require(cluster)
    return Observed(key, None, cluster, is_new)


def new_cluster(event: Event, now: datetime) -> Object | None:
    """Returns the Cluster in the event of its creation; None for other events, and if the Cluster is not new."""
    cluster = event.object
    is_cluster = event.kind == CLUSTER.kind and CLUSTER.is_read_in(event.api_version)
    if cluster is None or not is_cluster or event.change != "add" or not event.is_skippable:
        return None
    created = cluster_api.created_at(cluster)
    return cluster if created is not None and timedelta(0) <= now - created <= MAX_AGE_WITHOUT_READ else None


def decide(observed: Observed, _now: datetime, _results: Results | None = None) -> Decision:
    """Decides to create the ClusterAddon if the class of the Cluster comes from a cluster stack."""
    cluster = observed.cluster
    if cluster is None or deleting(cluster) or cluster_api.is_paused(cluster):
        return Decision()
    class_name = cluster_api.class_name(cluster)
    release = ReleaseName.from_class_name(class_name or "")
    if release is None:
        return Decision(message=f"class {class_name!r} does not belong to a cluster stack")
    metadata = cluster["metadata"]
    addon: Object = {
        "apiVersion": CLUSTER_ADDON.api_version,
        "kind": CLUSTER_ADDON.kind,
        "metadata": {
            "name": observed.key.name,
            "namespace": observed.key.namespace,
            "labels": {cluster_api.CLUSTER_NAME_LABEL: metadata["name"], **watch_filter.labels(cluster)},
            "ownerReferences": [owner_reference(cluster)],
            "finalizers": [ADDON_FINALIZER],
            **({} if observed.is_new else {"annotations": {SUCCESSOR_ANNOTATION: "true"}}),
        },
        "spec": {
            "clusterRef": {
                "apiVersion": cluster["apiVersion"],
                "kind": cluster["kind"],
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            }
        },
    }
    # The release is fetched while the cluster is provisioned. No object waits for it yet, so the request names none.
    fetch_request = request_release(release.tag, cluster_api.class_namespace(cluster), source="/addon_create")
    return Decision(effects=(Create(CLUSTER_ADDON, addon),), reply=fetch_request, message="ClusterAddon created")


handle = Function(TRIGGERS, observe, decide).handle
