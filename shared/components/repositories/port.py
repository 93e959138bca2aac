"""The port to published components.

Everything raises `SourceError` where the place fails, and `ComponentsError` for what it has being of no use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..errors import ComponentsError

METADATA = "metadata.yaml"
MOST_METADATA = 1_000_000
MOST_COMPONENTS = 10 * 2**20
"""Bytes, unpacked."""


@dataclass(frozen=True)
class Files:
    """The two files of one version, as text."""

    metadata: str
    components: str


class Repository(Protocol):
    """One provider's versions."""

    @property
    def place(self) -> str:
        """For people: without anything secret, and without the version."""
        ...

    @property
    def identity(self) -> str:
        """What tells it from another source: most often its place."""
        ...

    @property
    def private(self) -> bool:
        """Whether credentials open it."""
        ...

    def default_version(self) -> str:
        """What is installed where nobody says which version."""
        ...

    def fetch(self, version: str) -> Files: ...


def text(data: bytes, what: str, most: int = MOST_COMPONENTS) -> str:
    """Raises `ComponentsError` for what is no text, or too much of it."""
    if len(data) > most:
        raise ComponentsError(f"{what} is larger than {most} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ComponentsError(f"{what} is not text in UTF-8") from None
