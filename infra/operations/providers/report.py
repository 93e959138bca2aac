"""The output of commands that create provider objects: lines while they run, or one JSON document at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from rich.markup import escape

from infra.cli.terminal.output import Timeline, err, out
from infra.cli.terminal.text import plain
from shared.kube import Key, Object

from .. import manifests


@dataclass(frozen=True)
class WrittenObject:
    """An object that the command created, or that existed already.

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


class Report:
    """Collects and prints the output of a command.

    `ready` is True once all providers are ready. If not, `obstacle` is the reason, or the reason for not waiting.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self.timeline = Timeline(err if as_json else out)
        self.notes: list[str] = []
        self.written: list[WrittenObject] = []
        self.ready = False
        self.obstacle = ""

    def add_notes(self, notes: Iterable[str]) -> None:
        """Adds notes, and prints them on standard error."""
        for note in notes:
            self.notes.append(note)
            err.print(f"[yellow]note:[/yellow] {escape(plain(note))}")

    def add_written(self, written: WrittenObject, text: str) -> None:
        """Adds an object, and prints the line `text`."""
        self.written.append(written)
        self.timeline.say(text)

    def print_manifests(self, objects: Sequence[Object]) -> None:
        """Prints the objects of a dry run: as YAML, or as a JSON `List` that kubectl accepts."""
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        sys.stdout.write(json.dumps(listed, indent=2) + "\n" if self._as_json else manifests.dump(objects))

    def dump(self) -> Object:
        """Returns the JSON document."""
        return {
            "written": [obj.dump() for obj in self.written],
            "notes": self.notes,
            "ready": self.ready,
            "obstacle": self.obstacle,
        }

    @contextmanager
    def document_at_end(self) -> Iterator[None]:
        """Prints the JSON document after the block; after a failure, with the objects created before it."""
        try:
            yield
        except Exception as error:
            self.obstacle = str(error)
            raise
        finally:
            if self._as_json:
                sys.stdout.write(json.dumps(self.dump(), indent=2) + "\n")
