"""Extracts the fields that a user applied from an object, so that a capture can be replayed in another cluster.

The API server records who set each field (`managedFields`). Fields that only this project or the system set are left
out. An object without any other field was not made by the user. Pure.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from shared.kube import Object, dig, is_ours

_SYSTEM = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
_SERVERS = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "ownerReferences")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def user_part(obj: Mapping[str, Any]) -> Object | None:
    """Returns the object as its user applied it; None if a program made it or if it is being deleted.

    An object without managedFields counts as made by the user.
    """
    if dig(obj, "metadata.deletionTimestamp"):
        return None
    entries = [entry for entry in dig(obj, "metadata.managedFields", []) if not entry.get("subresource")]
    ours = _union(entry for entry in entries if is_ours(entry.get("manager")))
    theirs = [entry for entry in entries if not is_ours(entry.get("manager"))]
    others = _union(entry for entry in theirs if entry.get("manager") not in _SYSTEM)
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
    """Returns whether there is more than metadata, because a label or a finalizer alone does not make an object."""
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
    """Removes from `value` the fields in `ours` that are not in `others`."""
    for name, below in ours.items():
        where = _locate(value, name)
        if where is None:
            continue
        if name not in others:
            del value[where]
        else:
            _remove(value[where], below, others[name])


def _locate(value: Any, name: str) -> Any:
    """Returns the dict key or list index of an element of a managedFields path, or None if there is none."""
    sort, _, text = name.partition(":")
    if sort == "f" and isinstance(value, dict):
        return text if text in value else None
    if sort in ("k", "v") and isinstance(value, list):
        parsed = json.loads(text)
        for index, item in enumerate(value):
            if item == parsed if sort == "v" else isinstance(item, dict) and parsed.items() <= item.items():
                return index
    return None
