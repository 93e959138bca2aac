"""A read that calls share, for tasks that many events start within a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")


class SharedRead(Generic[V]):
    """Reads a value at most once in `pause` seconds; calls that arrive in between wait, and share the next value.

    Each call gets a value whose read began after the call. An older value may lack the object of the event, and brokers
    do not redeliver on request.
    """

    def __init__(self, pause: float) -> None:
        self.pause = pause
        self._lock = threading.Lock()
        self._last: tuple[float, V] | None = None
        """The start of the last read, by the monotonic clock, and the value."""

    def get(self, read: Callable[[], V]) -> V:
        """Returns a present value. Raises what `read` raises."""
        arrived = time.monotonic()
        with self._lock:
            if self._last is None or self._last[0] < arrived:
                if self._last is not None:
                    time.sleep(max(0.0, self._last[0] + self.pause - time.monotonic()))
                self._last = (time.monotonic(), read())
            return self._last[1]
