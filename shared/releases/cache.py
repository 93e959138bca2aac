"""Blobs kept in memory between calls. Content under its own digest is never out of date."""

from __future__ import annotations

import threading
from collections import OrderedDict


class BlobCache:
    """Least recently used, bounded in bytes, safe to share between threads."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._size = 0
        self._blobs: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, digest: str) -> bytes | None:
        """The blob, if kept."""
        with self._lock:
            if digest in self._blobs:
                self._blobs.move_to_end(digest)
            return self._blobs.get(digest)

    def add(self, digest: str, data: bytes) -> None:
        """Keep a blob whose digest has been checked; one over a quarter of the capacity is not worth the others."""
        with self._lock:
            if digest in self._blobs or len(data) > self._capacity // 4:
                return
            self._blobs[digest] = data
            self._size += len(data)
            while self._size > self._capacity:
                self._size -= len(self._blobs.popitem(last=False)[1])
