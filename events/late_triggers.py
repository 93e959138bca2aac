"""Tells when the Triggers of a Broker deliver.

A Broker takes events before its Triggers are Ready, and such a Trigger never delivers them: in a new installation, or
for a function that is added to one.
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
_PAUSE, _LONGEST_PAUSE, _GROWTH = 1.0, 30.0, 1.1
"""Seconds between two looks, and the factor by which they grow."""
_LAG = 5.0
"""Seconds for which a Trigger must have been Ready. The Broker reports it as Ready before the program that delivers has
taken it over; nothing shows when it has, mostly within a second."""


class LateTriggers:
    """Looks at the Triggers of a namespace until all deliver.

    Args:
        client: The cluster with the Triggers.
        namespace: Their namespace.
        on_ready: Called when Triggers deliver that did not before, and no others follow at once.
    """

    def __init__(self, client: Client, namespace: str, on_ready: Callable[[], object]) -> None:
        self._client = client
        self._namespace = namespace
        self._on_ready = on_ready
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="late-triggers", daemon=True)

    def start(self) -> None:
        """Starts to look, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the looks. One in progress is not waited for, and changes nothing any more."""
        self._stop.set()

    def _run(self) -> None:
        late, pause, is_news = self._late(), _PAUSE, False
        if late:
            log.info("these Triggers do not deliver yet: %s", ", ".join(sorted(late)))
        while late and not self._stop.wait(pause):
            before, late, pause = late, self._late(), min(_LONGEST_PAUSE, pause * _GROWTH)
            is_news |= not before <= late
            if is_news and (not late or late == before) and not self._stop.is_set():
                log.info("Triggers deliver now: what is not reconciled is sent again")
                self._on_ready()
                is_news = False

    def _late(self) -> frozenset[str]:
        """Returns the names of the Triggers that do not deliver. Tries until the API server answers, or the end."""
        while True:
            try:
                found, now = self._client.list(TRIGGER, self._namespace), datetime.now(UTC)
                return frozenset(obj["metadata"]["name"] for obj in found if not delivers(obj, now))
            except NotServed:  # the sink is no Broker
                return frozenset()
            except Unavailable as error:
                log.warning("the Triggers in %s cannot be listed: %s; trying again", self._namespace, error)
            except ApiError as error:
                log.warning("the Triggers in %s cannot be listed: %s", self._namespace, error)
                return frozenset()
            if self._stop.wait(_LONGEST_PAUSE):
                return frozenset()


def delivers(trigger: Object, now: datetime) -> bool:
    """Returns whether a Trigger delivers what the Broker takes now, as far as its status shows."""
    conditions = dig(trigger, "status.conditions", [])
    if dig(trigger, "status.observedGeneration") != trigger["metadata"]["generation"]:
        return False
    return is_true(conditions, "Ready") and seconds_since(conditions, "Ready", now) >= _LAG
