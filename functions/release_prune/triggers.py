"""Starts `release_prune` by an hourly timer."""

from __future__ import annotations

from shared import profiles
from shared.event import PING, Event
from shared.kube import Key
from shared.releases.garbage_collection import REFERRING_KINDS
from shared.settings import STORAGE
from shared.triggers import READ_CRDS, Rule, Subscription, Triggers


def everything(event: Event) -> Key | None:
    """Returns one fixed key for the timer that requests a full resync."""
    return Key("", "releases") if event.data.get("everything") is True else None


TRIGGERS = Triggers(
    name="release_prune",
    profiles=profiles.ADDONS,
    subscriptions=(Subscription(PING, everything),),
    rules=(*(Rule(kind.group, (kind.plural,), ("list",)) for kind in REFERRING_KINDS), READ_CRDS),
    settings=(STORAGE,),
)
