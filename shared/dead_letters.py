"""Keeps dead letters in object storage, so that a user sees which events were not handled, and why.

    dead-letters/<id>.json    one for each function, type of event and object; a repetition is counted

A dead letter is for diagnosis: the sweep finds the work again. It has the event's attributes and the identity of the
object, never its content, and a bounded size. Beyond `MOST` the oldest letters are deleted, but not at each new letter,
because that needs a list of all.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from shared.api.resources import SECRET
from shared.event import DeliveryFailure, Event, EventError, change_event, from_json
from shared.kube import Object, dig
from shared.redaction import redact_url
from shared.storage import ObjectStore

FUNCTION = "dead_letters"
"""The name of the function that keeps dead letters."""
MOST = 500
"""Letters that are kept."""
SLACK = 25
"""New letters of a process until it deletes the oldest again."""
PREFIX = "dead-letters/"

_LONGEST = 512
"""Characters of an attribute. A letter has at most 32 KiB, and all together 16 MiB."""
_MOST_BYTES = 64 << 10
_ID = re.compile(r"[0-9a-f]{12}")
_UID = re.compile(r"[0-9A-Za-z-]{1,64}")
_VERSION = re.compile(r"[0-9]{1,20}")
_READERS = 4
"""Threads that read listed letters."""


@dataclass(frozen=True)
class DeadLetter:
    """An event that will not be redelivered, without the content of its object.

    Attributes:
        event: The event as `without_content` returns it.
        first: When it was given up first.
        last: When it was given up last.
        count: How often it was given up.
    """

    event: Event
    first: datetime
    last: datetime
    count: int = 1

    @property
    def id(self) -> str:
        """The name of the letter: equal for one function, type of event and object."""
        event = self.event
        about = (event.group, event.kind, event.namespace, event.name) if event.kind else (event.subject,)
        return hashlib.sha256("\n".join((self.function, event.type, *about)).encode()).hexdigest()[:12]

    @property
    def function(self) -> str:
        """The function that did not handle the event, or the address of another receiver; empty if unknown."""
        return function_at(self.event.failure.destination) if self.event.failure else ""

    @property
    def status(self) -> int:
        """The HTTP status of the last answer; 0 if there was none."""
        return self.event.failure.status if self.event.failure else 0

    @property
    def reason(self) -> str:
        """The text of the last answer."""
        return self.event.failure.text if self.event.failure else ""

    def dump(self) -> Object:
        """Returns the letter for users."""
        attributes = self.event.attributes()
        return {
            "id": self.id,
            "function": self.function,
            "status": self.status,
            "reason": self.reason,
            "count": self.count,
            "first": self.first.isoformat(timespec="seconds"),
            "last": self.last.isoformat(timespec="seconds"),
            "object": self.event.data,
            "event": {name: value for name, value in attributes.items() if not name.startswith("knativeerror")},
        }

    def hint(self) -> Event | None:
        """Returns an event that makes functions reconcile the object again; None if the letter concerns no object.

        It contains a reference, like an event of the sweep, because functions read the object before they act. If a
        lost event requested a next step, the function that misses this step requests it again.
        """
        if not self.event.data:
            return None
        return change_event(self.event.data, self.event.change or "update", source="/dead-letter", reference=True)


def dead_letter(event: Event, now: datetime) -> DeadLetter:
    """Returns the letter of an event that was given up now."""
    return DeadLetter(without_content(event), now, now)


def without_content(event: Event) -> Event:
    """Returns the event with the identity of its object as data and with short attributes.

    Possible credentials are removed from the addresses of sender and receiver. The answer to an event with the content
    of a Secret is left out, because it may quote the Secret.
    """
    short = {
        name: getattr(event, name)[:_LONGEST]
        for name in ("type", "id", "subject", "time", "api_version", "kind", "namespace", "name")
    }
    failure = event.failure and DeliveryFailure(
        _redacted(event.failure.destination),
        event.failure.status,
        "(left out, as the event contains a Secret)" if _contains_secret(event) else event.failure.text.strip(),
    )
    source = _redacted(event.source)
    short_event = replace(event, **short, source=source, failure=failure, data={}, resync=False, repeated=False)
    return replace(short_event, data=_identity(short_event, event.data))


def function_at(destination: str) -> str:
    """Returns the name of the function at a URL, which names its Service; for any other address, the address."""
    if "//" not in destination:
        return destination
    address = urlsplit(destination)
    try:
        ipaddress.ip_address(address.hostname or "")
    except ValueError:
        return (address.hostname or "").partition(".")[0].replace("-", "_")
    return address.netloc


class DeadLetters:
    """The letters in an object store. All methods raise `StorageError` or `StorageUnavailable`."""

    def __init__(self, objects: ObjectStore, most: int = MOST, slack: int = SLACK) -> None:
        self._objects = objects
        self._most, self._slack = most, slack
        self._new = 0
        """The number of new letters since the last count, which the first new letter starts."""

    def keep(self, letter: DeadLetter) -> DeadLetter:
        """Stores a letter, counts a repetition, and now and then deletes the oldest. Returns the stored letter."""
        earlier = self.get(letter.id)
        if earlier is not None:
            letter = replace(letter, first=earlier.first, count=earlier.count + letter.count)
        self._objects.put(_key(letter.id), _encode(letter), if_absent=False)
        if earlier is None:
            if self._new % self._slack == 0:
                self._delete_oldest(letter)
            self._new += 1
        return letter

    def list(self) -> list[DeadLetter]:
        """Returns all letters, the newest first."""
        names = [key.removeprefix(PREFIX).removesuffix(".json") for key in self._objects.list(PREFIX)]
        with ThreadPoolExecutor(_READERS) as pool:
            letters = [letter for letter in pool.map(self.get, names) if letter is not None]
        return sorted(letters, key=lambda letter: letter.last, reverse=True)

    def get(self, name: str) -> DeadLetter | None:
        """Returns a letter by its id; None if there is none, or it is damaged."""
        data = self._objects.get(_key(name), _MOST_BYTES) if _ID.fullmatch(name) else None
        letter = _decode(data) if data is not None else None
        return letter if letter is not None and letter.id == name else None

    def drop(self, name: str) -> None:
        """Deletes a letter by its id. Does nothing if there is none."""
        if _ID.fullmatch(name):
            self._objects.delete(_key(name))

    def _delete_oldest(self, newest: DeadLetter) -> None:
        others = [entry for entry in self._objects.list_objects(PREFIX) if entry.key != _key(newest.id)]
        others.sort(key=lambda entry: entry.modified, reverse=True)
        for entry in others[self._most - 1 :]:
            self._objects.delete(entry.key)


def _key(name: str) -> str:
    return f"{PREFIX}{name}.json"


def _encode(letter: DeadLetter) -> bytes:
    times = {"first": letter.first.isoformat(), "last": letter.last.isoformat(), "count": letter.count}
    event = {**letter.event.attributes(), "data": letter.event.data}
    return json.dumps({**times, "event": event}, ensure_ascii=False).encode(errors="replace")


def _decode(data: bytes) -> DeadLetter | None:
    try:
        document: Mapping[str, Any] = json.loads(data)
        event = without_content(from_json(json.dumps(document["event"])))
        first, last = (datetime.fromisoformat(document[name]) for name in ("first", "last"))
        if first.tzinfo is None or last.tzinfo is None:
            return None
        return DeadLetter(event, first, last, int(document["count"]))
    except (EventError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _identity(event: Event, data: Object) -> Object:
    """Returns the identity of an event's object; empty if the event is about no object."""
    if not (event.kind and event.name):
        return {}
    metadata = {"name": event.name} | ({"namespace": event.namespace} if event.namespace else {})
    for field, pattern in (("uid", _UID), ("resourceVersion", _VERSION)):
        value = dig(data, ("metadata", field))
        if isinstance(value, str) and pattern.fullmatch(value):
            metadata[field] = value
    return {"apiVersion": event.api_version, "kind": event.kind, "metadata": metadata}


def _contains_secret(event: Event) -> bool:
    """Returns whether the event contains more of a Secret than its identity, regardless of its attributes."""
    known = {"apiVersion", "kind", "metadata", "name", "namespace", "uid", "resourceVersion"}
    metadata = event.data.get("metadata") or {}
    is_secret = SECRET.kind in (event.kind, event.data.get("kind"))
    return is_secret and not (event.data.keys() <= known and isinstance(metadata, dict) and metadata.keys() <= known)


def _redacted(address: str) -> str:
    """Returns an address, such as a URL or a path, without possible credentials."""
    return (redact_url(address) if "//" in address else address.partition("?")[0])[:_LONGEST]
