"""The report of an operation that creates provider objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from shared.kube import Key, Object


@dataclass(frozen=True)
class WrittenObject:
    """An object that was created, or that existed already.

    `version` is the version of a provider; it is empty for the newest version, and for a Namespace.
    """

    kind: str
    key: Key
    action: Literal["created", "unchanged"]
    version: str = ""

    def dump(self) -> Object:
        """Returns the JSON form of the object."""
        where = {"kind": self.kind, "namespace": self.key.namespace, "name": self.key.name}
        return {**where, "version": self.version, "action": self.action}


@dataclass
class Report:
    """Collects the objects and the notes of an operation, and passes them on at once.

    `ready` is True once all providers are ready. If not, `obstacle` is the reason, or the reason for not waiting.
    """

    progress: Callable[[str], None] = lambda _line: None
    """Receives a line for each step."""
    on_note: Callable[[str], None] = lambda _note: None
    """Receives each note."""
    notes: list[str] = field(default_factory=list)
    written: list[WrittenObject] = field(default_factory=list)
    ready: bool = False
    obstacle: str = ""

    def add_notes(self, notes: Iterable[str]) -> None:
        """Adds notes."""
        for note in notes:
            self.notes.append(note)
            self.on_note(note)

    def add_written(self, written: WrittenObject, text: str) -> None:
        """Adds an object; `text` is its line of progress."""
        self.written.append(written)
        self.progress(text)

    def dump(self) -> Object:
        """Returns the JSON document."""
        return {
            "written": [obj.dump() for obj in self.written],
            "notes": self.notes,
            "ready": self.ready,
            "obstacle": self.obstacle,
        }
