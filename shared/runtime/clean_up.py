"""Clean-ups: functions that the hourly timer starts, and that delete from object storage what no object refers to.

Nothing is deleted unless all objects that may refer to it could be read.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ..clients import Clients
from ..event import Event
from ..kube import ApiError
from ..settings import SETTINGS
from ..storage import ObjectStore, StorageError
from ..triggers import Triggers
from .answer import Answer, done
from .throttle import Throttle

KEEP = 24.0
"""The default of `RELEASE_KEEP_HOURS`: hours since the last write in which nothing is deleted."""
MIN_INTERVAL = 30.0
"""Seconds between two runs, because any pod can request one."""


class CleanUp:
    """A function that deletes `what`, for messages.

    `collect` deletes objects that were last written before a time, and returns a text about the deletions. It may raise
    `ApiError` and `StorageError`.
    """

    def __init__(self, triggers: Triggers, what: str, collect: Callable[[Clients, ObjectStore, datetime], str]) -> None:
        self._triggers, self._collect = triggers, collect
        self._throttle = Throttle(f"the clean-up of {what}")

    def handle(self, clients: Clients, event: Event) -> Answer:
        """Handles the hourly timer event."""
        if self._triggers.key(event) is None:
            return done("the event is not for this function")
        return self._throttle.run(clients, "prune", MIN_INTERVAL, lambda: self._run(clients))

    def _run(self, clients: Clients) -> Answer:
        before = datetime.now(UTC) - timedelta(hours=_hours())
        try:
            return done(self._collect(clients, ObjectStore.from_env(), before))
        except (ApiError, StorageError) as error:
            return Answer(503, str(error), retry_after=60.0)


def _hours() -> float:
    try:
        hours = float(SETTINGS.get("RELEASE_KEEP_HOURS") or KEEP)
    except ValueError:
        return KEEP
    return hours if 0 <= hours <= 24 * 365 else KEEP
