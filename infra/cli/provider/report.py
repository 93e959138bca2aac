"""What a command that writes provider objects tells: lines as it goes, or one document at its end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from rich.markup import escape

from shared.kube import Key, Object

from .. import manifests
from ..output import Timeline, err, out
from ..text import plain


@dataclass(frozen=True)
class Written:
    """An object that was asked for. `version` is what it was given, empty for the newest, and for no provider."""

    kind: str
    key: Key
    action: Literal["created", "unchanged"]
    version: str = ""

    def dump(self) -> Object:
        where = {"kind": self.kind, "namespace": self.key.namespace, "name": self.key.name}
        return {**where, "version": self.version, "action": self.action}


class Report:
    """`obstacle` is why not all are ready, or why that was not waited for."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self.timeline = Timeline(err if as_json else out)
        self.notes: list[str] = []
        self.written: list[Written] = []
        self.ready = False
        self.obstacle = ""

    def note(self, notes: Iterable[str]) -> None:
        for note in notes:
            self.notes.append(note)
            err.print(f"[yellow]note:[/yellow] {escape(plain(note))}")

    def wrote(self, written: Written, words: str) -> None:
        self.written.append(written)
        self.timeline.say(words)

    def manifests(self, objects: Sequence[Object]) -> None:
        """Instead of writing them; as JSON they are a list that kubectl takes."""
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        sys.stdout.write(json.dumps(listed, indent=2) + "\n" if self._as_json else manifests.dump(objects))

    def dump(self) -> Object:
        return {
            "written": [one.dump() for one in self.written],
            "notes": self.notes,
            "ready": self.ready,
            "obstacle": self.obstacle,
        }

    @contextmanager
    def ending(self) -> Iterator[None]:
        """The document is written also where it fails on the way: what was written until then is there."""
        try:
            yield
        except Exception as error:
            self.obstacle = str(error)
            raise
        finally:
            if self._as_json:
                sys.stdout.write(json.dumps(self.dump(), indent=2) + "\n")
