"""Divides the objects among forwarders by their namespaces."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Shard:
    """Part `index` of `count`, counted from 0. It has all events for the primary objects of its namespaces.

    Objects without a namespace belong to part 0.
    """

    index: int = 0
    count: int = 1

    def owns(self, namespace: str) -> bool:
        """Returns whether the objects of a namespace belong to this part."""
        return self.index == (zlib.crc32(namespace.encode()) % self.count if namespace else 0)

    def lease(self, name: str) -> str:
        """Returns the name of the Lease of this part."""
        return name if self.count == 1 else f"{name}-{self.index}-of-{self.count}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Returns the shard `I/N`. Raises `ValueError` if it is not valid."""
        found = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text, re.ASCII)
        index, count = map(int, found.groups()) if found else (0, 0)
        if index >= count:
            raise ValueError(f"{text!r} is not a shard: write I/N with 0 <= I < N, such as 0/3")
        return cls(index, count)


ALL = Shard()
