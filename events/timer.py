"""Starts a full sweep at an interval, like the PingSource in a cluster with Knative."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable

from shared.event import PING, Event

log = logging.getLogger("capi-functions.events")


class Timer:
    """Submits a ping event every `every` seconds; the first one `every` seconds after the start."""

    def __init__(self, submit: Callable[[Event], object], *, every: float) -> None:
        self._submit = submit
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="timer", daemon=True)

    def start(self) -> None:
        """Starts the thread of the timer."""
        self._thread.start()

    def stop(self) -> None:
        """Stops the timer and waits for its thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            event = Event(type=PING, source="/forwarder/timer", id=str(uuid.uuid4()), data={"everything": True})
            try:
                self._submit(event)
            except Exception:
                log.exception("submitting the event of the timer failed")
