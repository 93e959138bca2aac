"""Captures a run: a folder with every event in order and with the objects that the user applied, for replays.

    events/00001-cluster-add-default-one.json    a structured CloudEvent each
    inputs.yaml                                  the user's objects, in order of first appearance, including those
                                                 that were deleted later
    end.yaml                                     the watched objects at the end (with a client only)

Secrets arrive as references only, so a capture contains no values of Secrets unless one is passed to `add_input`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from shared import bounded_yaml
from shared.event import Event, EventError, from_json
from shared.kube import Client, Key, NotServed, Object, key_of
from shared.kube.resources import split_api_version
from shared.triggers import Triggers

from .inputs import user_part
from .watcher import Watcher

_OWN_NAMESPACES = ("", "default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True)
class Recording:
    """The content of a capture: events, inputs and final objects, each in order."""

    events: tuple[Event, ...] = ()
    inputs: tuple[Object, ...] = ()
    end: tuple[Object, ...] = ()


class Capture:
    """Records events into a folder.

    Args:
        folder: Created if absent. Raises `FileExistsError` if it contains a capture.
        client: Watches this cluster between `start` and `stop`. Without it, call `record` with each event, for
            instance as the `on_event` of a forwarder.
        triggers: The functions whose kinds are watched.
    """

    def __init__(
        self, folder: Path, client: Client | None = None, triggers: Mapping[str, Triggers] | None = None
    ) -> None:
        self.folder = folder
        self._events = folder / "events"
        self._events.mkdir(parents=True, exist_ok=True)
        if any(self._events.iterdir()):
            raise FileExistsError(f"{self._events} already contains a recording; name a new folder")
        self._lock = threading.Lock()
        self._number = 0
        self._inputs: dict[tuple[str, str, Key], Object] = {}
        self._made: set[tuple[str, str, Key]] = set()  # made by programs: never inputs, even if a user edits them
        self._client, self._triggers = client, triggers or {}
        self._watcher = Watcher(client, self._triggers, self.record) if client is not None else None

    def start(self) -> None:
        """Starts watching, if there is a client."""
        if self._watcher is not None:
            self._watcher.start()

    def wait_synced(self, timeout: float) -> bool:
        """Returns whether all kinds were listed within `timeout` seconds."""
        return self._watcher is None or self._watcher.wait_synced(timeout)

    def record(self, event: Event, _functions: Collection[str] = ()) -> None:
        """Writes the event to a file, and keeps its object as an input if the user made it."""
        with self._lock:
            self._number += 1
            name = _file_name(self._number, event)
            (self._events / name).write_text(event.to_json())
            obj = event.object
            if obj is None or event.change is None:
                return
            identity = _identity(obj)
            if event.change == "delete":
                self._made.discard(identity)
            elif (part := user_part(obj)) is None:
                # An input remains an input while it is deleted, or when a program recreates it.
                if identity not in self._inputs:
                    self._made.add(identity)
            elif identity not in self._made:
                self._inputs[identity] = part

    def add_input(self, obj: Object) -> None:
        """Adds an input without an event; the object is kept unchanged."""
        with self._lock:
            self._inputs[_identity(obj)] = obj

    def stop(self) -> Recording:
        """Stops watching, writes inputs and final objects, and returns the recording."""
        if self._watcher is not None:
            self._watcher.stop()
        with self._lock:
            _write(self.folder / "inputs.yaml", tuple(ordered(self._inputs.values())))
        if self._client is not None:
            _write(self.folder / "end.yaml", tuple(self._present(self._client)))
        return load(self.folder)

    def _present(self, client: Client) -> Iterator[Object]:
        """Yields the present objects of the watched kinds, without those whose events contain references only."""
        watches = [watch for triggers in self._triggers.values() for watch in triggers.watches]
        for resource in dict.fromkeys(watch.resource for watch in watches if not watch.reference):
            try:
                yield from client.list(resource)
            except NotServed:
                continue  # a kind that is not installed


def ordered(objects: Iterable[Object]) -> Iterator[Object]:
    """Yields the namespaces that the objects are in or refer to, then the objects in their order."""
    objects = list(objects)
    given = {obj["metadata"]["name"]: obj for obj in objects if _is_namespace(obj)}
    for name in dict.fromkeys([*given, *(key_of(obj).namespace for obj in objects)]):
        if name not in _OWN_NAMESPACES:
            yield given.get(name) or {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    yield from (obj for obj in objects if not _is_namespace(obj))


def load(path: Path) -> Recording:
    """Loads the folder of a capture, or one file: JSON with an event or a list of events, or YAML with inputs.

    Raises `EventError` or `OSError`, which name the file.
    """
    if path.is_dir():
        events = path / "events" if (path / "events").is_dir() else path
        inputs, end = path / "inputs.yaml", path / "end.yaml"
        return Recording(
            tuple(event for file in sorted(events.glob("*.json")) for event in _events_in(file)),
            _objects_in(inputs) if inputs.exists() else (),
            _objects_in(end) if end.exists() else (),
        )
    if path.suffix in (".yaml", ".yml"):
        return Recording(inputs=_objects_in(path))
    return Recording(tuple(_events_in(path)))


def _events_in(file: Path) -> Iterator[Event]:
    try:
        document = json.loads(file.read_text())
        for item in document if isinstance(document, list) else [document]:
            yield from_json(json.dumps(item))
    except ValueError as error:
        raise EventError(f"{file}: {error}") from error


def _write(file: Path, objects: tuple[Object, ...]) -> None:
    file.write_text(yaml.safe_dump_all(objects, sort_keys=False, explicit_start=True) if objects else "")


def _objects_in(file: Path) -> tuple[Object, ...]:
    try:
        documents: list[Any] = list(bounded_yaml.load_all(file.read_bytes()))
    except bounded_yaml.YAMLError as error:
        raise EventError(f"{file}: not YAML: {' '.join(str(error).split())}") from error
    return tuple(document for document in documents if document)


def _identity(obj: Mapping[str, Any]) -> tuple[str, str, Key]:
    return split_api_version(obj["apiVersion"])[0], obj["kind"], key_of(obj)


def _is_namespace(obj: Mapping[str, Any]) -> bool:
    return bool(obj["kind"] == "Namespace" and obj["apiVersion"] == "v1")


def _file_name(number: int, event: Event) -> str:
    words = (event.kind, event.change or event.type.rpartition(".")[2], event.namespace, event.name)
    return f"{number:05d}-{re.sub(r'[^a-z0-9.]+', '-', '-'.join(filter(None, words)).lower())}.json"
