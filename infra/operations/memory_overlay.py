"""An object store for one command: reads go to another store, writes stay in memory."""

from __future__ import annotations

from collections.abc import Sequence

from shared.storage import MAX_OBJECT, ObjectStore


class MemoryOverlay(ObjectStore):
    """An object store in memory on top of `behind`, which is never written to."""

    def __init__(self, behind: ObjectStore | None = None) -> None:
        super().__init__(behind.url if behind else "file:///memory")
        self._behind = behind
        self._written: dict[str, bytes | None] = {}
        """Data by key; None for deleted keys."""

    def get(self, key: str, limit: int = MAX_OBJECT) -> bytes | None:
        """Implements `ObjectStore.get`."""
        if key in self._written:
            return self._written[key]
        return self._behind.get(key, limit) if self._behind else None

    def put(self, key: str, data: bytes, *, if_absent: bool) -> bool:
        """Implements `ObjectStore.put`, in memory."""
        if if_absent and self.exists(key):
            return False
        self._written[key] = data
        return True

    def exists(self, key: str) -> bool:
        """Implements `ObjectStore.exists`."""
        if key in self._written:
            return self._written[key] is not None
        return self._behind.exists(key) if self._behind else False

    def list(self, folder: str = "") -> Sequence[str]:
        """Implements `ObjectStore.list`."""
        behind = {key for key in self._behind.list(folder) if key not in self._written} if self._behind else set()
        in_memory = {key for key, data in self._written.items() if data is not None and key.startswith(folder)}
        return sorted(behind | in_memory)

    def delete(self, key: str) -> None:
        """Implements `ObjectStore.delete`, in memory."""
        self._written[key] = None
