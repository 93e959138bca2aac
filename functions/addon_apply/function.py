"""`addon_apply`, put together."""

from __future__ import annotations

from functools import partial

from shared.api import cluster as contract
from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER, SECRET
from shared.clients import Clients
from shared.event import Event
from shared.kube import Object, deleting, dig
from shared.runtime import Answer, Function
from shared.runtime.flights import Flights
from shared.workload.policy import Policy, PolicyError

from . import history
from .decide import decide
from .observe import at_rest, is_anothers, observe
from .report import overtaken, report
from .triggers import TRIGGERS

_FLIGHTS = Flights()
"""The second of two deliveries about one addon then finds the work done; across processes, each does it at worst."""


def settled(addon: Object, event: Event) -> bool:
    """True where the addons are applied and the event's Cluster, if it carries one, still asks for the same."""
    if deleting(addon):
        return ADDON_FINALIZER not in dig(addon, "metadata.finalizers", [])
    if event.kind == CLUSTER.kind:
        cluster = event.object
        if cluster is None or event.change == "delete" or contract.is_paused(cluster):
            return False
        return at_rest(addon, cluster) and not is_anothers(addon, cluster) and _is_sound(cluster, addon)
    # Any other event leaves the wanted class as it is, and a Cluster that changed sends one of its own.
    return event.kind != SECRET.kind and _at_rest(addon) and _is_sound(addon)


def _is_sound(*annotated: Object) -> bool:
    """Whether the policy says something: if not, people should hear of it, whatever else is well."""
    try:
        Policy.of(*annotated)
    except PolicyError:
        return False
    return True


def _at_rest(addon: Object) -> bool:
    return (
        dig(addon, "status.ready") is True
        and bool(dig(addon, "spec.clusterStack"))
        and not dig(addon, "spec.hook")
        and not dig(addon, ("metadata", "annotations", history.ROLLBACK))
        and ADDON_FINALIZER in dig(addon, "metadata.finalizers", [])
    )


def handle(clients: Clients, event: Event) -> Answer:
    # Another kubeconfig may lead nowhere, or to another cluster.
    look = partial(observe, resync=event.resync, doubt=event.kind == SECRET.kind)
    with _FLIGHTS.alone((id(clients), TRIGGERS.key(event))):
        return Function(TRIGGERS, look, decide, settled, report, overtaken).handle(clients, event)
