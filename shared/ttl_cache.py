"""A cache whose values expire, for answers that rarely change."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

V = TypeVar("V")


class TTLCache:
    """Values that expire some seconds after they were read. Threads may share it."""

    def __init__(self) -> None:
        self._values: dict[Hashable, tuple[float, Any]] = {}
        """Each value with the time at which it expires, by the monotonic clock."""

    def get(self, key: Hashable, seconds: float, read: Callable[[], V]) -> V:
        """Returns the value of `key`. If there is none, keeps the result of `read` for `seconds`."""
        now = time.monotonic()
        expires, value = self._values.get(key, (now, None))
        if now < expires:
            kept: V = value
            return kept
        value = read()
        unexpired = {known: entry for known, entry in self._values.copy().items() if entry[0] > now}
        self._values = {**unexpired, key: (now + seconds, value)}
        return value

    def forget(self, key: Hashable) -> None:
        """Drops the value of `key`."""
        self._values.pop(key, None)
