"""The events of release requests by functions, and of the answers by `release_assets`."""

from __future__ import annotations

from shared.event import OWN, Event, own_event
from shared.kube import Object

_WANTED, _FETCHED = "release.wanted", "release.fetched"
WANTED, FETCHED = OWN + _WANTED, OWN + _FETCHED
"""The types of the request and of the answer; the answer has this type even if the release cannot be fetched."""


def request_release(tag: str, namespace: str, *, source: str, about: Object | None = None) -> Event:
    """Returns the event that requests the fetch of release `tag`.

    Args:
        tag: The release.
        namespace: The namespace of the ClusterClass, which decides the source.
        source: The source of the event: the path of the function.
        about: The object that waits for the release, if any; it is notified of the outcome.
    """
    return own_event(_WANTED, source=source, subject=tag, about=about, data={"release": tag, "namespace": namespace})


def answer_request(tag: str, about: Object) -> Event:
    """Returns the event that notifies the object `about`, which waits for release `tag`, of the end of the fetch."""
    return own_event(_FETCHED, source="/release_assets", subject=tag, about=about, data={"release": tag})
