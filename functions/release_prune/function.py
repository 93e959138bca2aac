"""The function `release_prune`: deletes unreferenced releases that are older than `RELEASE_KEEP_HOURS` (default 24).

Nothing is deleted unless all objects that may refer to a release could be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from shared.api.conditions import counted
from shared.clients import Clients
from shared.event import Event
from shared.kube import ApiError, Object
from shared.kube.crds import list_defined
from shared.releases.garbage_collection import REFERRING_KINDS, collect_garbage, references
from shared.runtime import Answer, done
from shared.runtime.throttle import Throttle
from shared.settings import SETTINGS
from shared.storage import ObjectStore, StorageError

from .triggers import TRIGGERS

KEEP = 24.0  # hours
MIN_INTERVAL = 30.0
"""Seconds between two runs: any pod can request one."""

_THROTTLE = Throttle("the clean-up of releases")


def handle(clients: Clients, event: Event) -> Answer:
    """Handles the hourly timer event."""
    if TRIGGERS.key(event) is None:
        return done("the event is not for this function")
    return _THROTTLE.run(clients, "prune", MIN_INTERVAL, lambda: _prune(clients))


def _prune(clients: Clients) -> Answer:
    try:
        before = datetime.now(UTC) - timedelta(hours=_hours())
        collected = collect_garbage(ObjectStore.from_env(), references(_objects(clients)), before)
    except (ApiError, StorageError) as error:
        return Answer(503, str(error), retry_after=60.0)
    return done(f"{counted(collected.releases, 'release')} and {counted(collected.blobs, 'blob')} deleted")


def _objects(clients: Clients) -> Iterator[Object]:
    for kind in REFERRING_KINDS:
        yield from list_defined(clients.management, kind)


def _hours() -> float:
    try:
        hours = float(SETTINGS.get("RELEASE_KEEP_HOURS") or KEEP)
    except ValueError:
        return KEEP
    return hours if 0 <= hours <= 24 * 365 else KEEP
