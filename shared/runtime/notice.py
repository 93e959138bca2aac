"""Kubernetes events: what a function tells about an object to whoever describes it.

An event is named after its object and its content. Telling the same again counts it up, as client-go's recorder does,
so a create whose answer was lost can be sent again, and a retry of ours adds no second event.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..clients import Clients
from ..effects import MANAGER
from ..kube import ApiError, Client, Conflict, Object, Resource, Unavailable, key_of

log = logging.getLogger("capi-functions")

_EVENTS = Resource("", "v1", "Event", "events")
_LONGEST_NAME = 253
_ATTEMPTS = 3


@dataclass(frozen=True)
class Notice:
    """A Kubernetes event on the primary object: `type` is Normal or Warning.

    `condition` is the type of the condition that says the same; the event is left out where that has not changed.
    """

    reason: str
    message: str
    type: str = "Normal"
    condition: str = ""


def record(clients: Clients, about: Mapping[str, Any], notice: Notice, *, name: str = "") -> None:
    """Records the event; with a `name` of its own, once. A courtesy: losing one fails nothing."""
    body = _body(about, notice, name)
    try:
        try:
            _create(clients.management, body)
        except Conflict as error:
            if not error.already_exists:
                raise
            if not name:
                _count_up(clients.management, body)
    except ApiError as error:
        log.warning("event %s on %s not recorded: %s", notice.reason, about["metadata"]["name"], error)


def _body(about: Mapping[str, Any], notice: Notice, name: str) -> Object:
    stamp = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    metadata = about["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name or _name(metadata, notice),
            "namespace": metadata.get("namespace") or "default",
        },
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "reason": notice.reason,
        "message": notice.message[:1024],
        "type": notice.type,
        "source": {"component": MANAGER},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


def _name(metadata: Mapping[str, Any], notice: Notice) -> str:
    content = "\n".join((metadata["uid"], notice.type, notice.reason, notice.message))
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    return f"{metadata['name'][: _LONGEST_NAME - len(digest) - 1].rstrip('.-')}.{digest}"


def _create(client: Client, body: Object) -> None:
    """The client does not repeat a create that the server may have carried out; under a fixed name it may be."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            client.create(_EVENTS, body)
            return
        except Unavailable:
            if attempt == _ATTEMPTS:
                raise


def _count_up(client: Client, body: Object) -> None:
    told = client.find(_EVENTS, key_of(body))
    if told is None:
        return
    about = {"resourceVersion": body["involvedObject"]["resourceVersion"]}
    again = {"count": (told.get("count") or 1) + 1, "lastTimestamp": body["lastTimestamp"], "involvedObject": about}
    client.patch(_EVENTS, key_of(body), again)
