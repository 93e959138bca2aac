"""Kubernetes events: what a function tells about an object to whoever describes it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..clients import Clients
from ..effects import MANAGER
from ..kube import ApiError, Conflict, Object, Resource

log = logging.getLogger("capi-functions")

_EVENTS = Resource("", "v1", "Event", "events")


@dataclass(frozen=True)
class Notice:
    """A Kubernetes event on the primary object: `type` is Normal or Warning."""

    reason: str
    message: str
    type: str = "Normal"


def record(clients: Clients, about: Mapping[str, Any], notice: Notice, *, name: str = "") -> None:
    """Tells it; with a `name` of its own, once. A courtesy: losing one fails nothing."""
    now = datetime.now(UTC)
    stamp = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    metadata = about["metadata"]
    body: Object = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name or f"{metadata['name']}.{now.timestamp():.6f}".replace(".", "-"),
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
    try:
        clients.management.create(_EVENTS, body)
    except ApiError as error:
        if name and isinstance(error, Conflict):
            return  # told already
        log.warning("event %s on %s not recorded: %s", notice.reason, metadata["name"], error)
