"""The function `release_assets`: fetches a release, checks it, stores it, and answers the object that waits for it.

A failed fetch is recorded beside the releases, so that the waiting ClusterAddon can report the reason.
"""

from __future__ import annotations

from datetime import UTC, datetime

from shared import metrics
from shared.clients import Clients
from shared.download import SourceError
from shared.event import Event
from shared.kube.crds import list_defined
from shared.releases.events import WANTED, answer_request
from shared.releases.garbage_collection import REFERRING_KINDS, references
from shared.releases.naming import InvalidName, ReleaseName
from shared.releases.release import InvalidRelease
from shared.releases.source_resolution import ScopedSource, resolve_source
from shared.runtime import Answer, Task, done
from shared.runtime.keyed_lock import KeyedLock

from .triggers import TRIGGERS

_LOCK = KeyedLock("the fetch of releases", limit=4, each=2)
"""Serializes requests for one release in a process, so that the second finds the release stored; the store does the
same across processes. The limit keeps threads free while a source is slow. Namespaces with sources of their own have
two slots each, and together leave one for the source of the settings."""

PAUSE = 5.0
"""Seconds after a failed fetch in which the release is not requested again, because each try can occupy a thread until
its timeout."""


def run(clients: Clients, event: Event) -> Answer:
    """Handles a request for a release, named in the event's data."""
    arrived = datetime.now(UTC)
    tag, namespace = event.data.get("release"), event.data.get("namespace") or event.namespace
    if not isinstance(tag, str) or not isinstance(namespace, str):
        return Answer(400, f"event {event.id}: not a {WANTED} event with the name of a release in data.release")
    try:
        name = ReleaseName.parse(tag)
        resolved = resolve_source(clients, namespace, name)
        with _LOCK.hold((resolved.scope, name.tag), resolved.namespace):
            return _ensure(clients, resolved, name, event, arrived)
    except InvalidName as error:
        return Answer(400, f"event {event.id}: {error}")


def _ensure(clients: Clients, resolved: ScopedSource, name: ReleaseName, event: Event, arrived: datetime) -> Answer:
    store = clients.releases.in_scope(resolved.scope)
    if store.load(name.tag) is not None:
        store.record_failure(name.tag, "")  # the process that stored it may have been killed before it did this
        _count("present")
        return done(f"{name} is stored already", reply=_fetched(event, name))
    if held := store.backoff(name.tag):
        message, seconds = held
        _count("held")
        # A request that arrived before the failure gets an answer. The sender of a later one knows the reason already.
        failure = store.last_failure(name.tag)
        arrived_before = failure is not None and failure[1] >= arrived
        return done(message, reply=_fetched(event, name) if arrived_before else None, retry_after=seconds)
    if not _is_referenced(clients, name):
        _count("unwanted")
        return done(f"no object refers to {name}")
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


def _is_referenced(clients: Clients, name: ReleaseName) -> bool:
    """Returns whether an object refers to the release. Any pod can send events, and must not trigger any fetch."""
    return any(name.tag in references(list_defined(clients.management, kind)).tags for kind in REFERRING_KINDS)


def _count(outcome: str) -> None:
    metrics.RELEASE_FETCHES.labels(outcome=outcome).inc()


def _fetched(event: Event, name: ReleaseName) -> Event | None:
    """Returns the event for the object that waits; None if the request named no object."""
    if not event.name:
        return None
    about = {
        "apiVersion": event.api_version,
        "kind": event.kind,
        "metadata": {"namespace": event.namespace, "name": event.name},
    }
    return answer_request(name.tag, about)


handle = Task(TRIGGERS, run).handle
