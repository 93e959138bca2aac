"""`cluster_wake`: emits one event for each object that depends on a Cluster that has changed."""

from __future__ import annotations

from collections.abc import Iterator

from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.resources import (
    CLUSTER,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
)
from shared.clients import Clients
from shared.event import Event
from shared.kube import Key, NotServed, Object, Resource, dig, key_of
from shared.runtime import Answer, Task, done
from shared.runtime.sink import emit
from shared.runtime.throttle import SharedRead
from shared.wake import wake_event

from .decide import affected_selectors, bound_sets, waits_for_its_cluster
from .triggers import TRIGGERS

_SELECTING: SharedRead[list[Object]] = SharedRead(pause=0.5)
"""The objects that select Clusters, of all namespaces. Most installations have few of them, and many Clusters."""


def run(clients: Clients, event: Event) -> Answer:
    """Handles a change of a Cluster or of its kubeconfig: emits an event for each object that depends on it."""
    key = TRIGGERS.key(event)
    if key is None:
        return done("the event is not for this function")
    affected = list(_affected(clients, event, key))
    if not affected:
        return done("no object depends on the Cluster")
    events = [wake_event(obj, source="/cluster_wake") for obj in affected]
    return emit(TRIGGERS, events, f"events for the objects that depend on the Cluster {key}")


def _affected(clients: Clients, event: Event, key: Key) -> Iterator[Object]:
    found = _SELECTING.get(lambda: [*_list(clients, HELM_CHART_PROXY), *_list(clients, CLUSTER_RESOURCE_SET)])
    selecting = [obj for obj in found if key_of(obj).namespace == key.namespace]
    proxies = [obj for obj in selecting if obj["kind"] == HELM_CHART_PROXY.kind]
    sets = [obj for obj in selecting if obj["kind"] == CLUSTER_RESOURCE_SET.kind]
    if proxies:
        releases = _list(clients, HELM_RELEASE_PROXY, key.namespace, f"{CLUSTER_NAME_LABEL}={key.name}")
        # A new kubeconfig may lead to another API server, which lacks the releases.
        yield from (one for one in releases if event.kind != CLUSTER.kind or waits_for_its_cluster(one))
    if event.kind != CLUSTER.kind:
        proxies = []  # their values do not depend on the kubeconfig
    if not sets and not proxies:
        return
    cluster = event.object if event.kind == CLUSTER.kind else None
    if cluster is None:
        cluster = clients.management.find(CLUSTER, key)
    named = cluster or {"metadata": {"name": key.name, "namespace": key.namespace}}
    labels = dig(cluster, "metadata.labels", {}) if cluster is not None else None
    yield from affected_selectors(proxies, named, labels)
    if sets:
        yield from affected_selectors(
            sets, named, labels, bound_sets(clients.management.find(CLUSTER_RESOURCE_SET_BINDING, key))
        )


def _list(clients: Clients, resource: Resource, namespace: str = "", selector: str = "") -> list[Object]:
    """Returns the objects of a kind, by default in all namespaces; none if the kind is not served."""
    try:
        return list(clients.management.list(resource, namespace, selector=selector))
    except NotServed:
        return []


handle = Task(TRIGGERS, run).handle
