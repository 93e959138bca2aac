"""`release_assets`: fetch, check, publish; then tell the one who asked.

A failed fetch is remembered beside the releases, so that the addon that waits can say why.
"""

from __future__ import annotations

from threading import Lock

from shared import metrics
from shared.clients import Clients
from shared.event import Event, own_event
from shared.releases.naming import InvalidName, ReleaseName
from shared.releases.release import InvalidRelease
from shared.releases.source import SourceError, from_env
from shared.runtime import Answer, done
from shared.storage import StorageError, StorageUnavailable

from .triggers import WANTED

_one_fetch = Lock()
"""Within a process the second of two equal wishes finds the work done; across processes the store sees to that."""


def handle(clients: Clients, event: Event) -> Answer:
    tag = event.data.get("release")
    if event.type != WANTED or not isinstance(tag, str):
        return Answer(400, f"event {event.id}: a {WANTED} with data.release, the name of a release, is needed")
    try:
        name = ReleaseName.parse(tag)
        with _one_fetch:
            message = _ensure(clients, name)
    except InvalidName as error:
        return Answer(400, f"event {event.id}: {error}")
    except StorageUnavailable as error:
        return Answer(503, str(error), retry_after=2.0)
    except StorageError as error:
        return Answer(503, str(error), retry_after=30.0)
    return done(message, reply=_fetched(event, name))


def _ensure(clients: Clients, name: ReleaseName) -> str:
    if clients.releases.load(name.tag) is not None:
        metrics.RELEASE_FETCHES.labels(outcome="present").inc()
        return f"{name} is there already"
    try:
        clients.releases.save(name.tag, from_env())
    except (InvalidRelease, SourceError) as error:
        metrics.RELEASE_FETCHES.labels(outcome="invalid" if isinstance(error, InvalidRelease) else "failed").inc()
        clients.releases.note_failure(name.tag, str(error))
        return str(error)
    metrics.RELEASE_FETCHES.labels(outcome="fetched").inc()
    clients.releases.note_failure(name.tag, "")
    return f"{name} fetched"


def _fetched(event: Event, name: ReleaseName) -> Event | None:
    """The answer for the object that waits; none for a wish that named no object."""
    if not event.name:
        return None
    about = {
        "apiVersion": event.api_version,
        "kind": event.kind,
        "metadata": {"namespace": event.namespace, "name": event.name},
    }
    return own_event(
        "release.fetched", source="/release_assets", subject=name.tag, about=about, data={"release": name.tag}
    )
