"""Prints the report on created providers: lines while a command runs, or one JSON document at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.markup import escape

from infra.operations import manifests
from infra.operations.providers.report import Report
from infra.operations.text import plain
from shared.kube import Object

from .output import err, out
from .timeline import Timeline


def _print_note(note: str) -> None:
    err.print(f"[yellow]note:[/yellow] {escape(plain(note))}")


class PrintedReport(Report):
    """A printed report: notes on standard error; lines, or a JSON document, on standard output."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self.timeline = Timeline(err if as_json else out)
        super().__init__(self.timeline.say, _print_note)

    def print_manifests(self, objects: Sequence[Object]) -> None:
        """Prints the objects of a dry run: as YAML, or as a JSON `List` that kubectl accepts."""
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        sys.stdout.write(json.dumps(listed, indent=2) + "\n" if self._as_json else manifests.dump(objects))

    @contextmanager
    def document_at_end(self) -> Iterator[None]:
        """Prints the JSON document after the block; after a failure, with the objects created before it."""
        try:
            yield
            if self.ready:
                self.timeline.say("all are ready", mark="✔", style="green")
        except Exception as error:
            self.obstacle = str(error)
            raise
        finally:
            if self._as_json:
                sys.stdout.write(json.dumps(self.dump(), indent=2) + "\n")
