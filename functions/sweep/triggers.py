"""Declares what starts `sweep`: a timer. It reads every kind for which a function declares `is_reconciled`."""

from __future__ import annotations

from functions import catalog
from shared import profiles
from shared.event import PING, REFERENCE, Event
from shared.kube import Key
from shared.settings import INSTALLATION, KUBECONFIGS
from shared.triggers import READ_CRDS, Rule, Subscription, Triggers

SWEPT = tuple(declared for declared in catalog.triggers(without=("sweep",)).values() if declared.is_reconciled)
"""The declarations of the functions whose objects are swept."""

PRIMARY_KINDS = tuple(dict.fromkeys(kind for declared in SWEPT for kind in declared.primaries))


def everything(_event: Event) -> Key:
    """Returns one fixed key for all events of the timer."""
    return Key("", "sweep")


TRIGGERS = Triggers(
    name="sweep",
    profiles=profiles.ALWAYS,
    subscriptions=(Subscription(PING, everything),),
    rules=(*(Rule(kind.group, (kind.plural,), ("list",)) for kind in PRIMARY_KINDS), READ_CRDS),
    settings=(INSTALLATION, KUBECONFIGS),
    emits=(REFERENCE + "update",),
)
