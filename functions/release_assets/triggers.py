"""What starts `release_assets`: an addon that found its release missing, or one that is about to look for it."""

from __future__ import annotations

from shared.api.resources import SECRET
from shared.event import OWN, Event
from shared.kube import Key
from shared.releases.garbage_collection import REFERRING_KINDS
from shared.settings import NETWORK, RELEASE_SOURCES, STORAGE
from shared.triggers import READ_CRDS, Rule, Subscription, Triggers

WANTED = OWN + "release.wanted"


def asker(event: Event) -> Key | None:
    """The object that waits for the release: each gets its own answer, also when many wait for the same one.

    Where nobody waits, it is the release (no object's name has a slash): one of many such wishes will do.
    """
    release, namespace = event.data.get("release"), event.data.get("namespace")
    if not release:
        return None
    return event.key if event.name else Key(str(namespace or ""), f"release/{release}")


TRIGGERS = Triggers(
    name="release_assets",
    subscriptions=(Subscription(WANTED, asker),),
    rules=(
        # What no object names is not fetched. The sources may be a ClusterStack's own, with their credentials in a
        # Secret beside it.
        *(Rule(kind.group, (kind.plural,), ("list",)) for kind in REFERRING_KINDS),
        Rule(SECRET.group, (SECRET.plural,), ("get",)),
        READ_CRDS,
    ),
    settings=(STORAGE, RELEASE_SOURCES, NETWORK),
)
