"""What starts `release_assets`: an addon that found its release missing."""

from __future__ import annotations

from shared.event import OWN, Event
from shared.kube import Key
from shared.triggers import Subscription, Triggers

WANTED = OWN + "release.wanted"


def asker(event: Event) -> Key | None:
    """The object that waits for the release: each gets its own answer, also when many wait for the same one."""
    return event.key if event.data.get("release") else None


TRIGGERS = Triggers(name="release_assets", subscriptions=(Subscription(WANTED, asker),))
