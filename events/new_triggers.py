"""Repeats the events that new Triggers of a Broker may have missed, after an installation or a new function.

A Broker accepts events before its Triggers deliver, and a Trigger never delivers earlier events. Nothing shows when a
Trigger begins to deliver. Knative's in-memory channel begins seconds after the Trigger is Ready, or up to a minute
later if many are created at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from shared.api.conditions import is_true, seconds_since
from shared.kube import ApiError, Client, NotServed, Object, Resource, Unavailable, dig

log = logging.getLogger("capi-functions.events")

TRIGGER = Resource("eventing.knative.dev", "v1", "Trigger", "triggers")
_NEW = 180.0
"""Seconds for which a Trigger that is Ready counts as new."""
_PAUSE, _LONGEST_PAUSE = 5.0, 600.0
"""Seconds until the first repetition; each later one waits twice as long as the one before, up to a limit."""


class NewTriggers:
    """Repeats, at growing intervals, while Triggers of a namespace are new or not Ready.

    Args:
        client: The cluster with the Triggers.
        namespace: Their namespace.
        repeat: Repeats the events of objects that are not reconciled.
    """

    def __init__(self, client: Client, namespace: str, repeat: Callable[[], object]) -> None:
        self._client = client
        self._namespace = namespace
        self._repeat = repeat
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="new-triggers", daemon=True)

    def start(self) -> None:
        """Starts looking for new Triggers, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the repetitions, without waiting for one in progress."""
        self._stop.set()

    def _run(self) -> None:
        pause = _PAUSE
        while (new := self._new()) and not self._stop.wait(pause):
            log.info(
                "objects that are not reconciled are sent again, because these Triggers are new: %s",
                ", ".join(sorted(new)),
            )
            self._repeat()
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _new(self) -> list[str]:
        """Returns the names of the new Triggers. Retries until the API server answers or this stops."""
        while not self._stop.is_set():
            try:
                now = datetime.now(UTC)
                found = self._client.list(TRIGGER, self._namespace)
                return [trigger["metadata"]["name"] for trigger in found if is_new(trigger, now)]
            except NotServed:  # the sink is no Broker
                break
            except Unavailable as error:
                log.warning("the Triggers in %s cannot be listed: %s; trying again", self._namespace, error)
                self._stop.wait(_PAUSE)
            except ApiError as error:
                log.warning("the Triggers in %s cannot be listed: %s", self._namespace, error)
                break
        return []


def is_new(trigger: Object, now: datetime) -> bool:
    """Returns whether a Trigger may not deliver yet, because it is not Ready or only became Ready recently."""
    conditions = dig(trigger, "status.conditions", [])
    if dig(trigger, "status.observedGeneration") != trigger["metadata"]["generation"]:
        return True
    return not is_true(conditions, "Ready") or seconds_since(conditions, "Ready", now) < _NEW
