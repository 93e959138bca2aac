"""The Kubernetes events about Cluster API's objects."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from datetime import datetime

from shared.api.resources import EVENT, KIND_CLUSTER
from shared.kube import Client, Object, dig
from shared.kube.resources import split_api_version

from .describe.cluster_objects import time_of
from .text import age, plain

_GROUPS = ("cluster.x-k8s.io", "clusterstack.x-k8s.io", KIND_CLUSTER.group)
"""The last parts of the API groups whose events are listed."""
MOST = 500
"""The maximum of events of one answer."""


def list_events(client: Client, namespace: str, name: str = "", *, warnings: bool = False) -> list[Object]:
    """Returns the newest events, the newest last.

    Args:
        client: The client of the management cluster.
        namespace: The namespace of the objects; empty for all.
        name: The name of the objects; empty for all.
        warnings: Whether to return warnings only.

    Raises:
        ApiError: The events cannot be read.
    """
    found = _selected(client.list(EVENT, namespace), name, warnings=warnings)
    return sorted(heapq.nlargest(MOST, found, key=time_of), key=time_of)


def table(events: Iterable[Object], now: datetime, *, namespaces: bool) -> list[tuple[str, ...]]:
    """Returns the cells of a table, its headings first; the messages are the last column."""
    place = ("NAMESPACE",) if namespaces else ()
    lines: list[tuple[str, ...]] = [(*place, "AGE", "TYPE", "OBJECT", "REASON", "COUNT", "MESSAGE")]
    for event in events:
        about = event.get("involvedObject") or {}
        cells = [
            *([about.get("namespace")] if namespaces else []),
            age(time_of(event), now),
            event.get("type"),
            f"{about.get('kind')}/{about.get('name')}",
            event.get("reason"),
            dig(event, "series.count") or event.get("count") or 1,
        ]
        texts = (plain(cell or "-", most=100) for cell in cells)
        lines.append((*texts, plain(event.get("message") or "", most=500)))
    return lines


def _selected(events: Iterable[Object], name: str, *, warnings: bool) -> Iterator[Object]:
    for event in events:
        about = event.get("involvedObject") or {}
        group, _ = split_api_version(str(about.get("apiVersion") or ""))
        chosen = group.endswith(_GROUPS) and name in ("", about.get("name"))
        if chosen and not (warnings and event.get("type") != "Warning"):
            yield event
