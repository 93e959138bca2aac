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
    """Returns the kinds that show whether functions have something to do: primary ones, and those that are given one.

    A Cluster without a ClusterAddon, or with another class than that has, is such an object of `addon_create`.
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
