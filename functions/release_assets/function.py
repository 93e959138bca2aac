"""`release_assets`: fetch, check, publish; then tell the one who asked, if one did.

A failed fetch is remembered beside the releases, so that the addon that waits can say why.
"""

from __future__ import annotations

from datetime import UTC, datetime

from shared import metrics
from shared.clients import Clients
from shared.download import SourceError
from shared.event import Event, own_event
from shared.kube import ApiError, Unavailable
from shared.kube.crds import list_defined
from shared.releases.garbage_collection import REFERRING_KINDS, references
from shared.releases.naming import InvalidName, ReleaseName
from shared.releases.release import InvalidRelease
from shared.releases.source_resolution import ScopedSource, resolve_source
from shared.runtime import Answer, done
from shared.runtime.keyed_lock import KeyedLock
from shared.storage import StorageError, StorageUnavailable

from .triggers import WANTED

_LOCK = KeyedLock("the fetch of releases", limit=3)
"""Within a process the second of two equal wishes finds the work done; across processes the store sees to that. And a
slow source takes no more than some of a process's threads."""

PAUSE = 5.0
"""Seconds for which a source that failed is not asked again for the same release: each try may take its whole timeout,
and a thread with it."""


def handle(clients: Clients, event: Event) -> Answer:
    arrived = datetime.now(UTC)
    tag, namespace = event.data.get("release"), event.data.get("namespace") or event.namespace
    if event.type != WANTED or not isinstance(tag, str) or not isinstance(namespace, str):
        return Answer(400, f"event {event.id}: a {WANTED} with data.release, the name of a release, is needed")
    try:
        name = ReleaseName.parse(tag)
        resolved = resolve_source(clients, namespace, name)
        with _LOCK.hold((resolved.scope, name.tag)):
            return _ensure(clients, resolved, name, event, arrived)
    except InvalidName as error:
        return Answer(400, f"event {event.id}: {error}")
    except (Unavailable, StorageUnavailable) as error:
        return Answer(503, str(error), retry_after=getattr(error, "retry_after", None) or 2.0)
    except (ApiError, StorageError) as error:
        return Answer(503, str(error), retry_after=30.0)


def _ensure(clients: Clients, resolved: ScopedSource, name: ReleaseName, event: Event, arrived: datetime) -> Answer:
    store = clients.releases.in_scope(resolved.scope)
    if store.load(name.tag) is not None:
        _count("present")
        return done(f"{name} is there already", reply=_fetched(event, name))
    if held := store.backoff(name.tag):
        message, seconds = held
        _count("held")
        # Who asked while it failed is told, too. Who asks later knows why, and would only ask again.
        failure = store.last_failure(name.tag)
        told = failure is not None and failure[1] >= arrived
        return done(message, reply=_fetched(event, name) if told else None, retry_after=seconds)
    if not _is_named(clients, name):
        _count("unwanted")
        return done(f"no object names {name}")
    try:
        store.save(name.tag, resolved.source)
    except (InvalidRelease, SourceError) as error:
        _count("failed" if isinstance(error, SourceError) else "invalid")
        after = None
        if isinstance(error, SourceError):
            after = error.retry_after or (PAUSE if error.transient else None)
        store.record_failure(name.tag, str(error), after)
        return done(str(error), reply=_fetched(event, name), retry_after=after)
    _count("fetched")
    store.record_failure(name.tag, "")
    return done(f"{name} fetched", reply=_fetched(event, name))


def _is_named(clients: Clients, name: ReleaseName) -> bool:
    """Whether an object wants the release: any pod may send events, and could have sources asked for anything."""
    return any(name.tag in references(list_defined(clients.management, kind)).tags for kind in REFERRING_KINDS)


def _count(outcome: str) -> None:
    metrics.RELEASE_FETCHES.labels(outcome=outcome).inc()


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
