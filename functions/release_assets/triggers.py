"""Starts `release_assets` when a release is missing in storage, or a new ClusterAddon will need it."""

from __future__ import annotations

from shared import profiles
from shared.api.resources import SECRET
from shared.event import Event
from shared.kube import Key
from shared.releases.events import WANTED
from shared.releases.garbage_collection import REFERRING_KINDS
from shared.settings import NETWORK, RELEASE_SOURCES, STORAGE
from shared.triggers import READ_CRDS, Rule, Subscription, Triggers


def requester(event: Event) -> Key | None:
    """Returns the key of the object that waits for the release: each waiting object gets a reply of its own.

    If no object waits, returns a key for the release, so that equal requests are coalesced. No object has this key,
    because it contains a slash.
    """
    release, namespace = event.data.get("release"), event.data.get("namespace")
    if not release:
        return None
    return event.key if event.name else Key(str(namespace or ""), f"release/{release}")


TRIGGERS = Triggers(
    name="release_assets",
    profiles=profiles.ADDONS,
    subscriptions=(Subscription(WANTED, requester),),
    rules=(
        # Only referenced releases are fetched. A ClusterStack may have its own sources, with credentials in a Secret.
        *(Rule(kind.group, (kind.plural,), ("list",)) for kind in REFERRING_KINDS),
        Rule(SECRET.group, (SECRET.plural,), ("get",)),
        READ_CRDS,
    ),
    settings=(STORAGE, RELEASE_SOURCES, NETWORK),
)
