"""What differs between an object as it is and as it would be, field by field, in words for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..kube import Object


class _Mark:
    """A value that is none."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


ABSENT: Final = _Mark("(absent)")
WITHHELD: Final = _Mark("(withheld)")
"""In the place of what a Secret holds."""

_BOOKKEEPING = {
    ("status",),
    *(("metadata", name) for name in ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")),
}


@dataclass(frozen=True)
class Field:
    """One difference. `path` is written as `capi-functions.dev/drift-ignore` takes it."""

    path: str
    old: Any = ABSENT
    new: Any = ABSENT

    def dump(self) -> Object:
        """As JSON: an absent value is left out, a withheld one said to be."""
        values = {"old": self.old, "new": self.new}
        if any(value is WITHHELD for value in values.values()):
            return {"path": self.path, "withheld": True}
        return {"path": self.path} | {name: value for name, value in values.items() if value is not ABSENT}


def compare(live: Object, other: Object, *, whole: bool = True) -> tuple[Field, ...]:
    """The fields in which `other` differs from `live`; unless it is `whole`, only those that it has.

    Of a Secret the paths only.
    """
    fields = _mappings(live, other, "", (), whole)
    if live.get("kind") == "Secret" and live.get("apiVersion") == "v1":
        fields = [Field(field.path, _withheld(field.old), _withheld(field.new)) for field in fields]
    return tuple(fields)


def _withheld(value: Any) -> Any:
    return value if value is ABSENT else WITHHELD


def _mappings(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str, at: tuple[str, ...], whole: bool
) -> list[Field]:
    found: list[Field] = []
    for name in {**old, **new} if whole else new:
        below = (*at, str(name))
        if below not in _BOOKKEEPING:
            where = f"{path}.{name}" if path else str(name)
            found += _values(old.get(name, ABSENT), new.get(name, ABSENT), where, below, whole)
    return found


def _values(old: Any, new: Any, path: str, at: tuple[str, ...], whole: bool) -> list[Field]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return _mappings(old, new, path, at, whole)
    if isinstance(old, list) and isinstance(new, list) and old != new:
        return _lists(old, new, path, at, whole) or [Field(path, old, new)]
    return [] if type(old) is type(new) and old == new else [Field(path, old, new)]


def _lists(old: list[Any], new: list[Any], path: str, at: tuple[str, ...], whole: bool) -> list[Field]:
    """Items of the same name or, in lists of one length, of the same place; empty where that tells nothing."""
    mine, theirs = _by_name(old), _by_name(new)
    if mine is not None and theirs is not None:
        pairs = [
            (f'{path}[name="{name}"]', mine.get(name, ABSENT), theirs.get(name, ABSENT)) for name in {**mine, **theirs}
        ]
    elif len(old) == len(new) and all(isinstance(item, Mapping) for item in (*old, *new)):
        pairs = [(f"{path}[{index}]", one, other) for index, (one, other) in enumerate(zip(old, new, strict=True))]
    else:
        return []
    return [field for where, one, other in pairs for field in _values(one, other, where, (*at, "[]"), whole)]


def _by_name(items: Sequence[Any]) -> dict[str, Any] | None:
    named = {item["name"]: item for item in items if isinstance(item, Mapping) and isinstance(item.get("name"), str)}
    return named if len(named) == len(items) else None
