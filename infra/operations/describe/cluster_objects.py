"""Reads a Cluster and the objects around it; each of these may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.api import cluster as cluster_api
from shared.api.names import addon_of
from shared.api.resources import CLUSTER_ADDON, CLUSTER_STACK_RELEASE, EVENT
from shared.clients import Clients
from shared.kube import ApiError, Client, Key, Object, Resource, dig, key_of
from shared.references import LookupResult, get_reference
from shared.releases.naming import ReleaseName

from .parts import Parts, read_parts

EVENTS = 10
"""The number of newest events that are shown."""
_NOTHING = LookupResult("unreferenced")
_NO_PARTS = Parts()


@dataclass(frozen=True)
class ClusterObjects:
    """The objects around a Cluster; each is present, absent, unreadable or not referenced."""

    cluster: Object
    infrastructure: LookupResult = _NOTHING
    control_plane: LookupResult = _NOTHING
    addon: LookupResult = _NOTHING
    release: LookupResult = _NOTHING
    events: Sequence[Object] = ()
    parts: Parts = _NO_PARTS


def gather(management: Client, cluster: Object) -> ClusterObjects:
    """Reads the objects around a Cluster, and the newest events about them."""
    clients, namespace = Clients(management), key_of(cluster).namespace
    wanted = release_of(cluster)
    infrastructure = get_reference(clients, cluster_api.infrastructure_ref(cluster), namespace)
    control_plane = get_reference(clients, cluster_api.control_plane_ref(cluster), namespace)
    addon = _look_up(management, CLUSTER_ADDON, addon_of(cluster))
    release = _look_up(management, CLUSTER_STACK_RELEASE, wanted) if wanted else _NOTHING
    objects = [cluster, *(found.object for found in (infrastructure, control_plane, addon, release) if found.object)]
    events = [event for obj in objects for event in events_about(management, obj)]
    parts = read_parts(management, key_of(cluster))
    newest = sorted(events, key=time_of)[-EVENTS:]
    return ClusterObjects(cluster, infrastructure, control_plane, addon, release, newest, parts)


def release_of(cluster: Object) -> Key | None:
    """Returns the key of the ClusterStackRelease that the Cluster's class names; None for another class."""
    name = ReleaseName.from_class_name(cluster_api.class_name(cluster) or "")
    return Key(cluster_api.class_namespace(cluster), name.tag) if name else None


def _look_up(management: Client, resource: Resource, key: Key) -> LookupResult:
    try:
        found = management.find(resource, key)
    except ApiError as error:
        return LookupResult("failed", resource.kind, resource=resource, error=str(error))
    return LookupResult("present" if found else "absent", resource.kind, found, resource)


def events_about(management: Client, obj: Object) -> list[Object]:
    """Returns the newest events about an object, the newest last; none if they cannot be read."""
    key = key_of(obj)
    query = {"fieldSelector": f"involvedObject.kind={obj['kind']},involvedObject.name={key.name}", "limit": "500"}
    try:
        found = management.request("GET", EVENT.path(key.namespace), query=query, subject="Event list")
    except ApiError:
        return []  # events are not essential
    return sorted(found.get("items") or [], key=time_of)[-EVENTS:]


def time_of(event: Mapping[str, Any]) -> str:
    """Returns the time of an event in UTC as Kubernetes writes it, which sorts as text; empty if it has none."""
    for path in ("series.lastObservedTime", "lastTimestamp", "eventTime", "metadata.creationTimestamp"):
        if dig(event, path):
            return str(dig(event, path))
    return ""
