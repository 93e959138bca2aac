"""Spreads looks for drift over the time between two rounds, so that reconciled objects are not all read at once.

A look is an event with `resync` set. It makes a function reconcile an object that seems reconciled. After a restart it
also resumes periodic work, such as polling a source.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from shared.event import Event, change_event
from shared.triggers import PrimaryRef, Triggers

log = logging.getLogger("capi-functions.events")

_FIRST, _LAST = 0.1, 0.9
"""The part of the interval over which looks are spread, after the work of the round and before the next round."""

_Origin = tuple[str, str, str, str]


@dataclass
class _Look:
    event: Event
    functions: set[str] = field(default_factory=set)


class DriftLooks:
    """Submits an event for each reconciled object at its own time after a round.

    Args:
        triggers: The functions by name.
        submit: Called with an event and the functions that it is for.
        every: Seconds between two rounds.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        triggers: Mapping[str, Triggers],
        submit: Callable[[Event, Collection[str]], object],
        *,
        every: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._triggers = triggers
        self._submit = submit
        self._every = every
        self._clock = clock
        self._changed = threading.Condition()
        self._looks: dict[_Origin, _Look] = {}
        self._due: list[tuple[float, _Origin]] = []
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="drift", daemon=True)

    def start(self) -> None:
        """Starts submitting looks."""
        self._thread.start()

    def stop(self) -> None:
        """Drops the looks that are not due."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def add(self, event: Event, function: str, ref: PrimaryRef) -> None:
        """Plans a look at the primary object `ref` of a function, which is reconciled as `event` shows."""
        look = self._look(event, function, ref)
        origin = (look.group, look.kind, look.namespace, look.name)
        with self._changed:
            if origin not in self._looks:
                self._looks[origin] = _Look(look)
                heapq.heappush(self._due, (self._clock() + share(origin) * self._every, origin))
                self._changed.notify()
            waiting = self._looks[origin]
            waiting.functions.add(function)
            waiting.event = waiting.event if look.object is None else look

    def take(self) -> tuple[Event, Collection[str]] | float | None:
        """Returns the next look that is due and its functions; else the seconds to wait, or None without a look."""
        with self._changed:
            if not self._due:
                return None
            at, origin = self._due[0]
            if (left := at - self._clock()) > 0:
                return left
            heapq.heappop(self._due)
            look = self._looks.pop(origin)
            return look.event, look.functions

    def _look(self, event: Event, function: str, ref: PrimaryRef) -> Event:
        """Returns the event with only a reference, to save memory, if the reference leads to the primary object."""
        bare = change_event(event.as_object, "update", source=event.source, reference=True, resync=True)
        return bare if self._triggers[function].find_ref(bare) == ref else replace(event, resync=True)

    def _run(self) -> None:
        while not self._stopped:
            match self.take():
                case (event, functions):
                    try:
                        self._submit(event, functions)
                    except Exception:
                        log.exception("submitting a check for drift failed")
                case wait:
                    with self._changed:
                        if not self._stopped:
                            self._changed.wait(min(1.0, wait) if isinstance(wait, float) else 1.0)


def share(origin: _Origin) -> float:
    """Returns the part of the interval after which the look at an object is due; the same in each interval."""
    return _FIRST + (_LAST - _FIRST) * zlib.crc32("/".join(origin).encode()) / 2**32
