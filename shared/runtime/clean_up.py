"""Clean-ups: tasks that the hourly timer starts, and that delete from object storage what no object refers to.

Nothing is deleted unless all objects that may refer to it could be read.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ..clients import Clients
from ..event import Event
from ..settings import SETTINGS
from ..storage import ObjectStore
from ..triggers import Triggers
from .answer import Answer, done
from .task import Task
from .throttle import Throttle

KEEP = 24.0
"""The default of `RELEASE_KEEP_HOURS`: nothing is deleted for so many hours after its last write."""
MIN_INTERVAL = 30.0
"""Seconds between two runs, because any pod can request one."""


def clean_up(triggers: Triggers, what: str, collect: Callable[[Clients, ObjectStore, datetime], str]) -> Task:
    """Returns the task that deletes `what`, for messages.

    `collect` deletes objects that were last written before a time, and returns a text about the deletions. It may raise
    `ApiError` and `StorageError`.
    """
    throttle = Throttle(f"the clean-up of {what}")

    def run(clients: Clients, _event: Event) -> Answer:
        before = datetime.now(UTC) - timedelta(hours=_hours())
        return throttle.run(
            clients, "prune", MIN_INTERVAL, lambda: done(collect(clients, ObjectStore.from_env(), before))
        )

    return Task(triggers, run)


def _hours() -> float:
    try:
        hours = float(SETTINGS.get("RELEASE_KEEP_HOURS") or KEEP)
    except ValueError:
        return KEEP
    return hours if 0 <= hours <= 24 * 365 else KEEP
