"""Declares what starts `sweep`: a timer. It reads every kind for which a function declares `is_reconciled`."""

from __future__ import annotations

from collections.abc import Iterable

from functions import catalog
from shared import profiles
from shared.event import PING, REFERENCE, Event
from shared.kube import Key, Resource
from shared.settings import INSTALLATION, KUBECONFIGS
from shared.triggers import READ_CRDS, Rule, Subscription, Triggers

SWEPT = tuple(declared for declared in catalog.triggers(without=("sweep",)).values() if declared.is_reconciled)
"""The declarations of the functions whose objects are swept."""


def swept_kinds(swept: Iterable[Triggers]) -> tuple[Resource, ...]:
    """Returns the kinds that show unfinished work: primary kinds, and kinds that need a primary object.

    For `addon_create`, such an object is a Cluster without a ClusterAddon, or with another class than its ClusterAddon.
    """
    found: dict[Resource, None] = {}
    for declared in swept:
        found |= dict.fromkeys(declared.primaries)
        found |= dict.fromkeys(watch.resource for watch in declared.watches if watch.creates_primary)
    return tuple(found)


KINDS = swept_kinds(SWEPT)


def everything(_event: Event) -> Key:
    """Returns one fixed key for all events of the timer."""
    return Key("", "sweep")


TRIGGERS = Triggers(
    name="sweep",
    profiles=profiles.ALWAYS,
    subscriptions=(Subscription(PING, everything),),
    rules=(*(Rule(kind.group, (kind.plural,), ("list",)) for kind in KINDS), READ_CRDS),
    settings=(INSTALLATION, KUBECONFIGS),
    emits=(REFERENCE + "update",),
)
