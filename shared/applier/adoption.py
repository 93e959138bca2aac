"""Taking objects over from who installed them before: what it set, and nobody sets any more, is to go.

A field goes with the last manager that holds it. An installer of before holds all that it ever wrote, so its share of
`metadata.managedFields` is made ours; the next apply then removes what it does not have. Who the installer was is told
by the label that it put on everything, whatever it called itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..effects import MANAGER
from ..kube import Client, Conflict, Object, Resource, dig, key_of

_ATTEMPTS = 4


def adopted_fields(obj: Mapping[str, Any], label: str) -> list[Object] | None:
    """The entries of `managedFields` with ours in the place of all installers'; None where there is no other.

    Those in another apiVersion stay: their fields may be called otherwise.
    """
    entries: list[Object] = dig(obj, "metadata.managedFields", [])
    ours = next((entry for entry in entries if is_applied_by_us(entry)), None)
    if ours is None:
        return None
    others = [entry for entry in entries if _installs(entry, label) and entry["apiVersion"] == ours["apiVersion"]]
    if not others:
        return None
    fields = ours.get("fieldsV1", {})
    for other in others:
        fields = _union(fields, other["fieldsV1"])
    return [{**entry, "fieldsV1": fields} if entry is ours else entry for entry in entries if entry not in others]


def adopt(client: Client, resource: Resource, live: Object, label: str) -> bool:
    """Whether there was anything to take over: then the object is to be applied once more. Raises `ApiError`."""
    for attempt in range(_ATTEMPTS):
        entries = adopted_fields(live, label)
        if entries is None:
            return attempt > 0
        metadata = {"resourceVersion": live["metadata"]["resourceVersion"], "managedFields": entries}
        try:
            client.patch(resource, key_of(live), {"metadata": metadata}, manager=MANAGER)
            return True
        except Conflict as error:  # somebody wrote it meanwhile
            refusal = error
            live = client.get(resource, key_of(live))
    raise refusal


def is_applied_by_us(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of `managedFields` is of what we applied."""
    return entry.get("manager") == MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource")


def _installs(entry: Mapping[str, Any], label: str) -> bool:
    holds = dig(entry, ("fieldsV1", "f:metadata", "f:labels", f"f:{label}")) is not None
    return holds and entry.get("manager") != MANAGER and not entry.get("subresource")


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> Object:
    return {**one, **{name: _union(one.get(name, {}), below) for name, below in other.items()}}
