"""An object store for one command: it reads through to another one, and what is written stays in memory."""

from __future__ import annotations

from collections.abc import Sequence

from shared.storage import ObjectStore


class Scratch(ObjectStore):
    def __init__(self, behind: ObjectStore | None = None) -> None:
        super().__init__(behind.bucket if behind else "memory")
        self._behind = behind
        self._written: dict[str, bytes | None] = {}
        """None for what is deleted."""

    def get(self, key: str) -> bytes | None:
        if key in self._written:
            return self._written[key]
        return self._behind.get(key) if self._behind else None

    def put(self, key: str, data: bytes, *, if_absent: bool) -> bool:
        if if_absent and self.exists(key):
            return False
        self._written[key] = data
        return True

    def exists(self, key: str) -> bool:
        if key in self._written:
            return self._written[key] is not None
        return self._behind.exists(key) if self._behind else False

    def list(self, prefix: str = "") -> Sequence[str]:
        there = {key for key in self._behind.list(prefix) if key not in self._written} if self._behind else set()
        mine = {key for key, data in self._written.items() if data is not None and key.startswith(prefix)}
        return sorted(there | mine)

    def delete(self, key: str) -> None:
        self._written[key] = None

    def ensure_bucket(self) -> None:
        """There is always one."""
