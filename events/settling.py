"""Finds the time when definitions of kinds have settled.

The definitions of one provider are created in a burst. The API server changes the status of each several times,
interleaved with other definitions, and serves the kind a moment after the last change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

PAUSE = 1.0
"""Seconds without a change of any definition after which all are settled."""
WITHIN = 10.0
"""The maximum number of seconds to wait."""


class Settling:
    """Records each change of a definition; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = float("-inf")

    def note(self) -> None:
        """Records that a definition has just changed."""
        self._changed = self._clock()

    def waits(self) -> Iterator[float]:
        """Yields the seconds to wait next, until definitions are settled."""
        latest = self._clock() + WITHIN
        while (left := min(self._changed + PAUSE, latest) - self._clock()) > 0:
            yield left
