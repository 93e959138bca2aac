"""Compares a live object with a planned object, field by field, for display."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..kube import Object, dig
from .fields import contains


class _Marker:
    """A placeholder for a value that does not exist or is not shown."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


ABSENT: Final = _Marker("(absent)")
REDACTED: Final = _Marker("(withheld)")
"""The marker that replaces the values of a Secret."""

_BOOKKEEPING = {
    ("status",),
    *(("metadata", name) for name in ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")),
}


@dataclass(frozen=True)
class FieldDiff:
    """One field that differs. `path` has the syntax of the annotation `capi-functions.dev/drift-ignore`."""

    path: str
    old: Any = ABSENT
    new: Any = ABSENT

    def dump(self) -> Object:
        """Returns the difference as JSON: without absent values, and with `withheld` instead of redacted ones."""
        values = {"old": self.old, "new": self.new}
        if any(value is REDACTED for value in values.values()):
            return {"path": self.path, "withheld": True}
        return {"path": self.path} | {name: value for name, value in values.items() if value is not ABSENT}


def compare(live: Object, other: Object, *, whole: bool = True) -> tuple[FieldDiff, ...]:
    """Returns the fields in which `other` differs from `live`.

    If both are responses of the server, unowned fields are ignored, because the server sets them, and each dry run may
    give another value (an allocated port). The values of Secrets are redacted.

    Args:
        live: The object as it is.
        other: The object as it would be.
        whole: Whether `other` is a complete object; if not, only the fields that it has are compared.
    """
    owned = OwnedFields.by_managers(live, other) if whole else _ALL
    fields = _mappings(live, other, "", (), whole, owned)
    if live.get("kind") == "Secret" and live.get("apiVersion") == "v1":
        fields = [FieldDiff(field.path, _redacted(field.old), _redacted(field.new)) for field in fields]
    return tuple(fields)


def is_applied(live: Object, desired: Object, manager: str) -> bool:
    """Returns whether an apply of `desired` by this field manager would change nothing.

    Then `live` has all values of `desired`, and the manager owns no field that `desired` lacks.
    """
    owned = OwnedFields.by_managers(live, manager=manager)
    return contains(live, desired) and not _mappings(live, desired, "", (), True, owned)


def _redacted(value: Any) -> Any:
    return value if value is ABSENT else REDACTED


@dataclass(frozen=True)
class OwnedFields:
    """The fields below some path that managers own: subtrees of `fieldsV1`. `whole` if a manager owns all of them."""

    parts: tuple[Mapping[str, Any], ...] = ()
    whole: bool = False

    @classmethod
    def by_managers(cls, *objects: Object, manager: str = "") -> OwnedFields:
        """Collects the fields that any manager, or this one, owns in these objects; all fields if none is known."""
        entries = [entry for obj in objects for entry in dig(obj, "metadata.managedFields", [])]
        fields = [dig(entry, "fieldsV1") for entry in entries if manager in ("", entry.get("manager"))]
        known = tuple(each for each in fields if isinstance(each, Mapping))
        return cls(known) if known else _ALL

    def __bool__(self) -> bool:
        return self.whole or bool(self.parts)

    def of_field(self, name: str) -> OwnedFields:
        """Returns the owned fields of this field."""
        return self._below(lambda key: key == f"f:{name}")

    def item(self, *items: Any) -> OwnedFields:
        """Returns the owned fields of a list item; `items` are its old and new form."""
        return self._below(lambda key: key.startswith("k:") and any(matches_key(item, key[2:]) for item in items))

    def _below(self, match: Callable[[str], bool]) -> OwnedFields:
        matching = (part for parts in self.parts for key, part in parts.items() if match(key))
        found = tuple(part if isinstance(part, Mapping) else {} for part in matching)
        return OwnedFields(found, self.whole or not all(found))


_ALL: Final = OwnedFields(whole=True)


def matches_key(item: Any, text: str) -> bool:
    """Returns whether a list item has all values of a key in `fieldsV1`, a JSON object; False for other text."""
    try:
        key = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(item, Mapping) or not isinstance(key, Mapping):
        return False
    return all(item.get(name) == value for name, value in key.items())


def _mappings(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str, at: tuple[str, ...], whole: bool, owned: OwnedFields
) -> list[FieldDiff]:
    found: list[FieldDiff] = []
    for name in {**old, **new} if whole else new:
        below = (*at, str(name))
        if below not in _BOOKKEEPING:
            where = f"{path}.{name}" if path else str(name)
            one, other = old.get(name, ABSENT), new.get(name, ABSENT)
            found += _values(one, other, where, below, whole, owned.of_field(name))
    return found


def _values(old: Any, new: Any, path: str, at: tuple[str, ...], whole: bool, owned: OwnedFields) -> list[FieldDiff]:
    """Compares two values at `path`; `at` has the names of its steps, `owned` the fields that managers own there."""
    if not owned or (not whole and old is ABSENT and new is None):  # null in an apply equals an absent field
        return []
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return _mappings(old, new, path, at, whole, owned)
    if isinstance(old, list) and isinstance(new, list) and old != new:
        found = _lists(old, new, path, at, whole, owned)
        return [FieldDiff(path, old, new)] if found is None else found
    return [] if type(old) is type(new) and old == new else [FieldDiff(path, old, new)]


def _lists(
    old: list[Any], new: list[Any], path: str, at: tuple[str, ...], whole: bool, owned: OwnedFields
) -> list[FieldDiff] | None:
    """Compares items by name, or by index in lists of equal length; None if items cannot be paired."""
    old_by_name, new_by_name = _by_name(old), _by_name(new)
    if old_by_name is not None and new_by_name is not None:
        if old_by_name.keys() == new_by_name.keys() and list(old_by_name) != list(new_by_name):
            return None
        pairs = [
            (f'{path}[name="{name}"]', old_by_name.get(name, ABSENT), new_by_name.get(name, ABSENT))
            for name in {**old_by_name, **new_by_name}
        ]
    elif len(old) == len(new) and all(isinstance(item, Mapping) for item in (*old, *new)):
        pairs = [(f"{path}[{index}]", one, other) for index, (one, other) in enumerate(zip(old, new, strict=True))]
    else:
        return None
    below = (*at, "[]")
    return [
        field
        for where, one, other in pairs
        for field in _values(one, other, where, below, whole, owned.item(one, other))
    ]


def _by_name(items: Sequence[Any]) -> dict[str, Any] | None:
    named = {item["name"]: item for item in items if isinstance(item, Mapping) and isinstance(item.get("name"), str)}
    return named if len(named) == len(items) else None
