"""Records Kubernetes Events about objects of the management cluster, for `kubectl describe` and event exporters.

The name of an event is derived from its object and its content. Recording the same event again increments its count,
as client-go's event recorder does. So a create can be repeated after a lost response without a second event.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shared.api.resources import EVENT

from ..clients import Clients
from ..kube import MANAGER, ApiError, Client, Conflict, Object, Unavailable, key_of

log = logging.getLogger("capi-functions")

_MAX_NAME_LENGTH = 253
_ATTEMPTS = 3


@dataclass(frozen=True)
class KubernetesEvent:
    """A Kubernetes Event about the primary object of a function; not a CloudEvent, which is `shared.event.Event`.

    `type` is "Normal" or "Warning". `condition` is the type of the condition with the same reason and message, if there
    is one: the runtime leaves out an event whose condition has not changed. A repetition of an event is counted, unless
    it is recorded `once`.
    """

    reason: str
    message: str
    type: str = "Normal"
    condition: str = ""
    once: bool = False


def record_event(clients: Clients, involved: Mapping[str, Any], event: KubernetesEvent, *, name: str = "") -> None:
    """Records `event` about the object `involved`.

    Args:
        clients: The management cluster is written to.
        involved: The object, with the metadata that the API server gave it.
        event: What to record.
        name: Records the event under this name, and only once. By default the name is derived from the content.

    Errors of the API server are logged, not raised, because a lost event must not fail a reconciliation.
    """
    body = _body(involved, event, name)
    try:
        try:
            _create(clients.management, body)
        except Conflict as error:
            if not error.already_exists:
                raise
            if not (name or event.once):
                _increment_count(clients.management, body)
    except ApiError as error:
        log.warning("event %s on %s not recorded: %s", event.reason, involved["metadata"]["name"], error)


def _body(involved: Mapping[str, Any], event: KubernetesEvent, name: str) -> Object:
    stamp = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    metadata = involved["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name or _name(metadata, event),
            "namespace": metadata.get("namespace") or "default",
        },
        "involvedObject": {
            "apiVersion": involved["apiVersion"],
            "kind": involved["kind"],
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "reason": event.reason,
        "message": event.message[:1024],
        "type": event.type,
        "source": {"component": MANAGER},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


def _name(metadata: Mapping[str, Any], event: KubernetesEvent) -> str:
    content = "\n".join((metadata["uid"], event.type, event.reason, event.message))
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    return f"{metadata['name'][: _MAX_NAME_LENGTH - len(digest) - 1].rstrip('.-')}.{digest}"


def _create(client: Client, body: Object) -> None:
    """Creates the event, with retries: the client repeats no create, but under a fixed name a repetition is safe."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            client.create(EVENT, body)
            return
        except Unavailable:
            if attempt == _ATTEMPTS:
                raise


def _increment_count(client: Client, body: Object) -> None:
    existing = client.find(EVENT, key_of(body))
    if existing is None:
        return
    involved = {"resourceVersion": body["involvedObject"]["resourceVersion"]}
    count = (existing.get("count") or 1) + 1
    patch = {"count": count, "lastTimestamp": body["lastTimestamp"], "involvedObject": involved}
    client.patch(EVENT, key_of(body), patch)
