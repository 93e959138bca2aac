"""Reads and caches facts about the management cluster that many Clusters depend on."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from shared.api.resources import API_SERVER_SOURCE, CLUSTER_CLASS
from shared.clients import Clients
from shared.kube import ApiError, Client, Key, NotServed, Object, Resource, dig
from shared.kube.resources import split_api_version
from shared.running_core import running_core
from shared.settings import NAMESPACE

log = logging.getLogger("capi-functions")

_SOURCES_SECONDS = 300.0
"""Seconds for which the kinds that Knative's event sources watch are cached."""
_CLASS_SECONDS = 300.0
"""Seconds for which the availability gates of a ClusterClass are cached, because a class may be large."""


def core_runs(clients: Clients) -> bool:
    """Returns whether a Cluster API core runs; False if reading is denied. Raises `ApiError`."""
    return bool(running_core(clients.management, clients.remembered))


def is_watched(clients: Clients, resource: Resource) -> bool:
    """Returns whether changes of a kind start functions.

    Also returns True where Knative's event sources are not installed or cannot be read.
    """
    source = API_SERVER_SOURCE
    if clients.discovery.known(source.group, source.kind) is None:
        return True
    watched = clients.remembered.get("watched", _SOURCES_SECONDS, lambda: _read_watched(clients.management))
    return not watched or (resource.group, resource.kind) in watched


def watched_kinds(sources: Iterable[Object]) -> frozenset[tuple[str, str]]:
    """Returns group and kind of each resource that these ApiServerSources watch."""
    watched = (each for source in sources for each in dig(source, "spec.resources", []))
    return frozenset(
        (split_api_version(str(dig(each, "apiVersion", "")))[0], str(dig(each, "kind", ""))) for each in watched
    )


def class_gates(clients: Clients, key: Key) -> tuple[Object, ...]:
    """Returns the availability gates of a ClusterClass; none if it does not exist. Raises `ApiError`."""
    return clients.remembered.get(("gates", key), _CLASS_SECONDS, lambda: _read_gates(clients.management, key))


def _read_watched(management: Client) -> frozenset[tuple[str, str]]:
    try:
        return watched_kinds(management.list(API_SERVER_SOURCE, NAMESPACE))
    except ApiError as error:
        log.warning("the event sources cannot be read: %s", error)
        return frozenset()


def _read_gates(management: Client, key: Key) -> tuple[Object, ...]:
    try:
        found = management.find(CLUSTER_CLASS, key)
    except NotServed:
        return ()
    return tuple(dig(found, "spec.availabilityGates") or ())
