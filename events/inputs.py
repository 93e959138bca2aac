"""What of an object the user wrote: the part of it to apply again elsewhere.

The server notes for each field who set it (`managedFields`). What only we set, and what only a server knows, is left
out; an object of which nothing is left was not the user's. Pure.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from shared.effects import MANAGER
from shared.kube import Object, dig

_SYSTEM = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
_SERVERS = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "ownerReferences")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def user_part(obj: Mapping[str, Any]) -> Object | None:
    """The object as the user would apply it, or None if a program made it, or it is being deleted.

    Where the server tells no managers, the object is taken for the user's.
    """
    if dig(obj, "metadata.deletionTimestamp"):
        return None
    entries = [entry for entry in dig(obj, "metadata.managedFields", []) if not entry.get("subresource")]
    ours = _union(entry for entry in entries if entry.get("manager") == MANAGER)
    others = _union(entry for entry in entries if entry.get("manager") not in (MANAGER, *_SYSTEM))
    if (entries and not others) or (ours and not _body(others)):
        return None
    part: Object = copy.deepcopy(dict(obj))
    part.pop("status", None)
    if ours:
        _remove(part, ours, others)
    metadata = part.setdefault("metadata", {})
    for name in _SERVERS:
        metadata.pop(name, None)
    (metadata.get("annotations") or {}).pop(_LAST_APPLIED, None)
    for name in ("annotations", "labels", "finalizers"):
        if not metadata.get(name):
            metadata.pop(name, None)
    metadata |= {name: value for name in ("name", "namespace") if (value := dig(obj, f"metadata.{name}"))}
    return part


def _body(fields: Mapping[str, Any]) -> bool:
    """True if the fields are what makes an object, and not a label or a finalizer put onto another's."""
    return any(name not in ("f:metadata", "f:status") for name in fields)


def _union(entries: Any) -> dict[str, Any]:
    together: dict[str, Any] = {}
    for entry in entries:
        _join(together, entry.get("fieldsV1") or {})
    return together


def _join(into: dict[str, Any], fields: Mapping[str, Any]) -> None:
    for name, below in fields.items():
        _join(into.setdefault(name, {}), below)


def _remove(value: Any, ours: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Takes from `value` what is in `ours` but not in `others`."""
    for name, below in ours.items():
        where = _locate(value, name)
        if where is None:
            continue
        if name not in others:
            del value[where]
        else:
            _remove(value[where], below, others[name])


def _locate(value: Any, name: str) -> Any:
    """The dict key or list index that a path element of managedFields means, or None."""
    sort, _, text = name.partition(":")
    if sort == "f" and isinstance(value, dict):
        return text if text in value else None
    if sort in ("k", "v") and isinstance(value, list):
        wanted = json.loads(text)
        for index, item in enumerate(value):
            if item == wanted if sort == "v" else isinstance(item, dict) and wanted.items() <= item.items():
                return index
    return None
