"""CloudEvents 1.0 for changes of Kubernetes objects and for next steps of functions.

Changes have exactly the format of Knative's ApiServerSource (types `dev.knative.apiserver.resource.*` with the object,
`dev.knative.apiserver.ref.*` with a reference), so that events of Knative, of the forwarder and of a capture are
interchangeable. Next steps have types that begin with `dev.capi-functions.`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from . import memory_budget, tracing
from .kube.resources import Key, Object, conventional_plural, dig, key_of, split_api_version

Change = Literal["add", "update", "delete"]

RESOURCE = "dev.knative.apiserver.resource."
REFERENCE = "dev.knative.apiserver.ref."
PING = "dev.knative.sources.ping"
OWN = "dev.capi-functions."

STRUCTURED = "application/cloudevents+json"
"""The media type of an event in structured mode."""
_REQUIRED = ("specversion", "id", "type", "source")

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that no attribute may contain (CloudEvents 1.0, type system), because a line break would end a header."""
_NAME = re.compile(r"[!-~]*")
"""The characters of kinds, versions and names."""
_TRACE = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""The form of a span's name; anything else is ignored."""
_MAX_LENGTH = 2048
"""Characters of an attribute."""


class EventError(ValueError):
    """A request is not a valid CloudEvent; the message says why."""


_FAILURE = "knativeerror"
"""The beginning of the names of the attributes that Knative adds for a dead-letter sink."""
_MAX_ERROR = 768
"""Bytes of an error's text: Knative limits its base64 to 1024 characters."""


@dataclass(frozen=True)
class DeliveryFailure:
    """The failure of an event's last delivery, from the extensions `knativeerror*` of dead-letter sinks.

    Attributes:
        destination: The receiver that did not handle the event: a URL, or the name of a function.
        status: The HTTP status of the answer; 0 if there was none.
        text: The text of the answer.
    """

    destination: str
    status: int
    text: str = ""

    def attributes(self) -> dict[str, str]:
        """Returns the extension attributes."""
        encoded = base64.b64encode(self.text.encode(errors="replace")[:_MAX_ERROR]).decode()
        found = {"dest": self.destination, "code": str(self.status), "data": encoded}
        return {f"{_FAILURE}{name}": value for name, value in found.items() if value}


@dataclass(frozen=True)
class Event:
    """A CloudEvent. `kind`, `api_version`, `name` and `namespace` are empty unless the event is about an object."""

    type: str
    source: str
    id: str
    subject: str = ""
    time: str = ""
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    data: Object = field(default_factory=dict)
    resync: bool = False
    """Whether to look for changes that no status shows, such as drift (extension `resync`)."""
    repeated: bool = False
    """Whether a function has requested this delivery, because it waits for something (extension `repeated`)."""
    failure: DeliveryFailure | None = None
    """The last failure, if the event is a dead letter."""
    trace: str = ""
    """The span that led to it (extension `traceparent`)."""

    @property
    def change(self) -> Change | None:
        """The change that the event is about; None if it is no change of an object."""
        word = self.type.rpartition(".")[2]
        is_change = self.type.startswith((RESOURCE, REFERENCE))
        return word if is_change and word in ("add", "update", "delete") else None  # type: ignore[return-value]

    @property
    def is_skippable(self) -> bool:
        """Whether the objects in the event and in the cluster alone decide whether there is work."""
        return not (self.resync or self.repeated)

    @property
    def is_look(self) -> bool:
        """Whether this is the first delivery of a resync; a repetition waits for something that the resync found."""
        return self.resync and not self.repeated

    @property
    def group(self) -> str:
        """The API group of the object; empty for the core group."""
        return split_api_version(self.api_version)[0]

    @property
    def key(self) -> Key:
        """Namespace and name of the object."""
        return Key(self.namespace, self.name)

    @property
    def object(self) -> Object | None:
        """The object as it was after the change; None if the event contains a reference only."""
        return self.data if self.type.startswith(RESOURCE) and dig(self.data, "metadata.name") else None

    @property
    def as_object(self) -> Object:
        """The object, or one with kind and name only if the event contains a reference."""
        if self.object is not None:
            return self.object
        metadata = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}

    def without_object(self) -> Event:
        """Returns the event with a reference in place of the object; an event without an object stays as it is."""
        if self.object is None or self.change is None:
            return self
        return replace(self, type=REFERENCE + self.change, data=_reference(self.api_version, self.kind, self.key))

    def attributes(self) -> dict[str, str]:
        """Returns the attributes of the CloudEvent, and issues the event if necessary."""
        if not self.id:
            return issue(self).attributes()
        attributes = {"specversion": "1.0", "type": self.type, "source": self.source, "id": self.id}
        optional = {
            "subject": self.subject,
            "time": self.time,
            "kind": self.kind,
            "apiversion": self.api_version,
            "name": self.name,
        }
        attributes |= {name: value for name, value in optional.items() if value}
        if self.kind:  # present and empty for cluster-scoped objects, as the adapter sends it
            attributes["namespace"] = self.namespace
        if self.resync:
            attributes["resync"] = "true"
        if self.repeated:
            attributes["repeated"] = "true"
        if self.trace:
            attributes[tracing.HEADER] = self.trace
        return attributes | (self.failure.attributes() if self.failure else {})

    def to_http(self) -> tuple[dict[str, str], bytes]:
        """Returns headers and body in binary mode."""
        headers = {f"ce-{name}": value for name, value in self.attributes().items()}
        headers["content-type"] = "application/json"
        return headers, json.dumps(self.data, separators=(",", ":")).encode()

    def to_json(self) -> str:
        """Returns the event in structured mode, as captures store it."""
        document = self.attributes() | {"datacontenttype": "application/json", "data": self.data}
        return json.dumps(document, indent=1, sort_keys=True) + "\n"


def is_reference(obj: Mapping[str, Any]) -> bool:
    """Returns whether an object has kind and name only, as `Event.as_object` returns it for an event by reference."""
    return "spec" not in obj


def from_http(headers: Mapping[str, str], body: bytes) -> Event:
    """Returns the CloudEvent of a request, in binary or structured mode.

    Raises `EventError` if it is not valid, or `MemoryBusy`.
    """
    from cloudevents import exceptions
    from cloudevents.http import from_http as parse

    lowered = {name.lower(): value for name, value in headers.items()}
    media_type = _media_type(lowered)
    if media_type.startswith("application/cloudevents-batch"):
        raise EventError("batches of CloudEvents are not supported: send one event per request")
    if media_type == STRUCTURED:
        lowered["content-type"] = STRUCTURED  # as the library compares it
    elif media_type.startswith("application/cloudevents"):
        raise EventError(f"{media_type[:100]} is not supported: send {STRUCTURED}, or ce-* headers")
    elif not is_event(lowered):
        raise EventError(f"not a CloudEvent: no ce-* headers and no {STRUCTURED} body")
    elif missing := [name for name in _REQUIRED if f"ce-{name}" not in lowered]:  # else the library reads the body
        raise EventError(f"not a valid CloudEvent: the header ce-{missing[0]} is missing")
    try:
        with memory_budget.BUDGET.parsing(memory_budget.admitted(body)) as charge:
            parsed = parse(lowered, body, data_unmarshaller=_json)
            return _event(parsed.get_attributes(), charge.keep(parsed.get_data()))
    except EventError:
        raise
    except memory_budget.InputTooLarge as error:
        raise EventError(f"the body {error}") from None
    except (exceptions.GenericException, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise EventError(f"not a valid CloudEvent: {str(error)[:200]}") from error


def is_event(headers: Mapping[str, str]) -> bool:
    """Returns whether the headers, by name in lower case, belong to a CloudEvent in binary or structured mode.

    A web page can send neither the media type nor these headers without asking the server first (CORS).
    """
    return _media_type(headers) == STRUCTURED or any(name.startswith("ce-") for name in headers)


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def from_json(text: str | bytes) -> Event:
    """Returns a CloudEvent in structured mode. Raises `EventError` if it is not valid."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EventError(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise EventError("not a CloudEvent: the document is not a JSON object")
    return _event(document, document.get("data"))


def _json(body: bytes | str) -> Any:
    return json.loads(body) if body else {}


def _event(attributes: Mapping[str, Any], data: Any) -> Event:
    if attributes.get("specversion") != "1.0":
        raise EventError(f"specversion is {str(attributes.get('specversion'))[:100]!r}, it must be '1.0'")
    missing = [name for name in ("id", "type", "source") if not attributes.get(name)]
    if missing:
        raise EventError(f"attribute {', '.join(missing)} is missing or empty")
    about = f"event {str(attributes['id'])[:200]} of type {str(attributes['type'])[:200]}"
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise EventError(f"{about}: data is a JSON {type(data).__name__}, it must be an object")
    event = Event(
        type=str(attributes["type"]),
        source=str(attributes["source"]),
        id=str(attributes["id"]),
        subject=str(attributes.get("subject") or ""),
        time=str(attributes.get("time") or ""),
        api_version=str(attributes.get("apiversion") or data.get("apiVersion") or ""),
        kind=str(attributes.get("kind") or data.get("kind") or ""),
        namespace=str(attributes.get("namespace") or dig(data, "metadata.namespace", "")),
        name=str(attributes.get("name") or dig(data, "metadata.name", "")),
        data=data,
        resync=str(attributes.get("resync", "")).lower() == "true",
        repeated=str(attributes.get("repeated", "")).lower() == "true",
        failure=_failure(attributes),
        trace=trace if _TRACE.fullmatch(trace := str(attributes.get(tracing.HEADER) or "")) else "",
    )
    _check(event)
    if event.change and not (event.kind and event.api_version and event.name):
        raise EventError(f"{about}: the change of an object needs the attributes kind, apiversion and name")
    return event


def _failure(attributes: Mapping[str, Any]) -> DeliveryFailure | None:
    destination, code, data = (str(attributes.get(f"{_FAILURE}{name}") or "") for name in ("dest", "code", "data"))
    if not (destination or code):
        return None
    try:
        text = base64.b64decode(data, validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        text = data
    status = int(code) if re.fullmatch(r"[1-5][0-9]{2}", code) else 0
    return DeliveryFailure(destination, status, text[:_MAX_ERROR])


def _check(event: Event) -> None:
    """Raises `EventError` for attributes that are not valid in headers, or as names in Kubernetes."""
    names = {"kind": event.kind, "apiversion": event.api_version, "namespace": event.namespace, "name": event.name}
    free = {"id": event.id, "type": event.type, "source": event.source, "subject": event.subject, "time": event.time}
    free |= {f"{_FAILURE}dest": event.failure.destination} if event.failure else {}
    for attribute, value in (names | free).items():
        if len(value) > _MAX_LENGTH:
            raise EventError(f"attribute {attribute} is longer than {_MAX_LENGTH} characters")
        if _CONTROL.search(value):
            raise EventError(f"attribute {attribute} contains control characters, such as a line break")
        if attribute in names and not _NAME.fullmatch(value):
            raise EventError(f"attribute {attribute} is not a valid name in Kubernetes: it must be visible ASCII")


def change_event(obj: Object, change: Change, *, source: str, reference: bool = False, resync: bool = False) -> Event:
    """Returns the event for a change of an object.

    Args:
        obj: The object after the change, or before a deletion.
        change: What happened.
        source: The `source` of the event: the URL of the API server, or the path of a function.
        reference: Leaves out the object itself, as for Secrets.
        resync: See `Event.resync`.
    """
    key = key_of(obj)
    api_version, kind = obj["apiVersion"], obj["kind"]
    subject = f"/apis/{api_version}/namespaces/{key.namespace}/{conventional_plural(kind)}/{key.name}"
    data: Object = _reference(api_version, kind, key) if reference else obj
    return Event(
        type=(REFERENCE if reference else RESOURCE) + change,
        source=source,
        id=str(uuid.uuid4()),
        subject=subject,
        time=_now(),
        api_version=api_version,
        kind=kind,
        namespace=key.namespace,
        name=key.name,
        data=data,
        resync=resync,
    )


def _reference(api_version: str, kind: str, key: Key) -> Object:
    """Returns the data of an event by reference."""
    data = {"apiVersion": api_version, "kind": kind, "name": key.name}
    return data | ({"namespace": key.namespace} if key.namespace else {})


def own_event(
    type_: str, *, source: str, subject: str, about: Object | None = None, data: Object, resync: bool = False
) -> Event:
    """Returns an event for a next step, with the type `dev.capi-functions.<type_>`, to be issued when it is sent.

    Args:
        type_: The rest of the type.
        source: The path of the function that sends it.
        subject: What the step is about, such as the tag of a release.
        about: The object that the step is about, or a reference to it (apiVersion, kind, metadata).
        data: The data of the event.
        resync: See `Event.resync`.
    """
    about = about or {}
    key = key_of(about)
    return Event(
        type=OWN + type_,
        source=source,
        id="",
        subject=subject,
        api_version=about.get("apiVersion", ""),
        kind=about.get("kind", ""),
        namespace=key.namespace,
        name=key.name,
        data=data,
        resync=resync,
    )


def issue(event: Event) -> Event:
    """Returns the event with an id and a time of its own, unless it has them."""
    return event if event.id else replace(event, id=str(uuid.uuid4()), time=_now())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
