"""A cache of blobs in memory. Blobs are found by the digest of their content, so they are never out of date."""

from __future__ import annotations

import threading
from collections import OrderedDict


class BlobCache:
    """Evicts the least recently used blobs beyond a capacity in bytes. Threads may share it."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._size = 0
        self._blobs: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, digest: str) -> bytes | None:
        """Returns the blob; None if it is not in the cache."""
        with self._lock:
            if digest in self._blobs:
                self._blobs.move_to_end(digest)
            return self._blobs.get(digest)

    def add(self, digest: str, data: bytes) -> None:
        """Adds a blob whose digest has been checked, unless it is larger than a quarter of the capacity."""
        with self._lock:
            if digest in self._blobs or len(data) > self._capacity // 4:
                return
            self._blobs[digest] = data
            self._size += len(data)
            while self._size > self._capacity:
                self._size -= len(self._blobs.popitem(last=False)[1])
