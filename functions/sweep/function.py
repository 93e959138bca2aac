"""The function `sweep`: emits events for objects that are not reconciled, since event sources may lose events.

A timer starts it. With `{"everything": true}` as the data of its event, every object is sent as a resync; with
`{"kind": "..."}` every object of that kind, so that ClusterStacks look for new releases.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from shared import profiles
from shared.api import cluster as cluster_api
from shared.api.addon import reported_release
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import NotServed, Object, deleting, dig, key_of
from shared.kube.crds import list_defined
from shared.kube.resources import split_api_version
from shared.releases.naming import ReleaseName
from shared.runtime import Answer
from shared.runtime.emit import emit
from shared.runtime.throttle import Throttle
from shared.settings import SETTINGS
from shared.triggers import Triggers

from .triggers import PRIMARY_KINDS, SWEPT, TRIGGERS

log = logging.getLogger("capi-functions")

SOURCE = "/sweep"
MIN_INTERVAL = 30.0
"""Seconds between two sweeps that send reconciled objects as well: any pod can request one."""

_THROTTLE = Throttle("the sweep")


def handle(clients: Clients, event: Event) -> Answer:
    """Answers a ping event: lists the objects and sends those that need it to K_SINK."""
    if TRIGGERS.key(event) is None:
        return Answer(400, f"event {event.id}: the sweep takes only events of type {TRIGGERS.subscriptions[0].type}")
    everything, kind = event.data.get("everything") is True, event.data.get("kind")
    if kind is not None and kind not in [resource.kind for resource in PRIMARY_KINDS]:
        return Answer(400, f"event {event.id}: data.kind is not a kind that is swept")
    try:
        swept = _swept()
    except ValueError as error:
        return Answer(503, f"setting CAPI_FUNCTIONS_PROFILES: {error}", retry_after=60.0)
    interval = MIN_INTERVAL if everything or kind else 0.0

    def sweep() -> Answer:
        return _sweep(clients, swept, kind, everything=everything)

    return _THROTTLE.run(clients, (everything, kind), interval, sweep)


def _swept() -> tuple[Triggers, ...]:
    """Returns the functions of the installation's profiles. Raises ValueError for a profile that does not exist."""
    wanted = profiles.parse(SETTINGS.get("CAPI_FUNCTIONS_PROFILES", ""))
    return tuple(one for one in SWEPT if profiles.belongs(one.profiles, wanted))


def _sweep(clients: Clients, swept: Sequence[Triggers], kind: str | None, *, everything: bool) -> Answer:
    objects = list(_objects(clients, swept, kind))
    chosen = objects if everything or kind else list(not_reconciled(objects, swept))
    events = (change_event(obj, "update", source=SOURCE, reference=True, resync=everything) for obj in chosen)
    return emit(TRIGGERS, events, f"of {len(objects)} objects sent again")


def not_reconciled(objects: Iterable[Object], swept: Sequence[Triggers] = SWEPT) -> Iterator[Object]:
    """Yields the objects that a function of `swept` has to reconcile, as far as the listed objects show it."""
    objects = list(objects)
    with_addon = {
        (key_of(addon).namespace, dig(addon, "spec.clusterRef.name"), reported_release(addon))
        for addon in objects
        if addon["kind"] == CLUSTER_ADDON.kind
    }
    for obj in objects:
        if deleting(obj) or not _reconciled(obj, swept) or _outdated(obj) or _lacks_addon(obj, with_addon):
            yield obj


def _reconciled(obj: Object, swept: Sequence[Triggers]) -> bool:
    """Returns whether the object is reconciled for every function with this primary kind."""
    kind = split_api_version(obj["apiVersion"])[0], obj["kind"]
    responsible = (one for one in swept if kind in [(primary.group, primary.kind) for primary in one.primaries])
    event = change_event(obj, "add", source=SOURCE)
    return all(one.is_reconciled(obj, event) for one in responsible if one.is_reconciled)


def _outdated(obj: Object) -> bool:
    """Returns whether the status is about an earlier generation."""
    observed = dig(obj, "status.observedGeneration")
    return observed is not None and observed != obj["metadata"].get("generation")


def _lacks_addon(obj: Object, with_addon: set[tuple[str, str, str]]) -> bool:
    """Returns whether the object is a Cluster of a cluster stack without an addon for its class.

    `with_addon` has namespace, Cluster and class of each ClusterAddon.
    """
    if obj["kind"] != CLUSTER.kind or cluster_api.is_paused(obj):
        return False
    name = cluster_api.class_name(obj)
    key = key_of(obj)
    return bool(name and ReleaseName.from_class_name(name) and (key.namespace, key.name, name) not in with_addon)


def _objects(clients: Clients, swept: Sequence[Triggers], kind: str | None) -> Iterator[Object]:
    for resource in dict.fromkeys(kind for one in swept for kind in one.primaries):
        if kind not in (None, resource.kind):
            continue
        try:
            yield from list_defined(clients.management, resource)
        except NotServed as error:
            log.warning("the sweep skips %s", error)
