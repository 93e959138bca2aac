"""Formats changes of objects: their numbers, and one changed field in a few lines, of long texts the differing part."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shared.applier.diff import ABSENT, REDACTED, FieldDiff

from .text import plain, value

_MAX_LENGTH = 100
"""The maximum length of a shown value."""
_AROUND = 20
"""The number of characters shown before the first difference."""
_ITEMS = 20
"""The maximum number of lines for a list."""
_WORDS = {
    "create": "to create",
    "update": "to update",
    "recreate": "to recreate",
    "delete": "to delete",
    "keep": "kept",
    "refuse": "refused",
    "unknown": "of unknown kinds",
    "unchanged": "unchanged",
    "conflicts": "with conflicts",
}
_FLAG = re.compile(r"(--?[A-Za-z][\w.-]*=).*", re.DOTALL)


def summary(counts: Mapping[str, int]) -> list[str]:
    """Returns one phrase for each action with its number of objects."""
    phrases = [f"{counts[action]} {words}" for action, words in _WORDS.items() if counts[action]]
    return phrases or ["no objects"]


def lines(field: FieldDiff) -> Iterator[str]:
    """Yields a line with the field's old and new value; for a list, the changed items below it."""
    path = plain(field.path)
    if REDACTED in (field.old, field.new):
        yield f"{path}: (a Secret's: not shown)"
    elif field.old is ABSENT:
        yield f"{path}: + {value(field.new)}"
    elif field.new is ABSENT:
        yield f"{path}: - {value(field.old)}"
    elif isinstance(field.old, list) and isinstance(field.new, list):
        yield from _list(path, field.old, field.new)
    else:
        yield f"{path}: {_changed(field.old, field.new)}"


def _list(path: str, old: Sequence[Any], new: Sequence[Any]) -> Iterator[str]:
    removed, added = _without(old, new), _without(new, old)
    if not removed and not added:
        yield f"{path}: the same items in another order, or another number of times"
        return
    yield f"{path}:"
    items = list(_items(removed, added))
    yield from (f"  {line}" for line in items[:_ITEMS])
    if len(items) > _ITEMS:
        yield f"  and {len(items) - _ITEMS} more"


def _without(items: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    return [item for item in items if item not in others]


def _items(removed: Sequence[Any], added: Sequence[Any]) -> Iterator[str]:
    """Yields removed, added and changed items; a flag with another value counts as changed."""
    added = list(added)
    for item in removed:
        other = next((each for each in added if _flag(item) and _flag(each) == _flag(item)), None)
        if other is None:
            yield f"- {value(item, most=5 * _MAX_LENGTH)}"
        else:
            added.remove(other)
            yield f"~ {_changed(item, other)}"
    for item in added:
        yield f"+ {value(item, most=5 * _MAX_LENGTH)}"


def _flag(item: Any) -> str:
    """Returns `--feature-gates=` of `--feature-gates=A=true`; empty if the item is not a flag with a value."""
    match = _FLAG.fullmatch(item) if isinstance(item, str) else None
    return match[1] if match else ""


def _changed(old: Any, new: Any) -> str:
    if isinstance(old, str) and isinstance(new, str):
        if (name := _flag(old)) and name == _flag(new) and "," in old + new:
            return f"{name} {_parts(old.removeprefix(name), new.removeprefix(name))}"
        old, new = _from_difference(old, new)
    return f"{value(old, most=_MAX_LENGTH)} -> {value(new, most=_MAX_LENGTH)}"


def _parts(old: str, new: str) -> str:
    """Compares two comma-separated lists, such as feature gates."""
    before, after = old.split(","), new.split(",")
    removed, added = _without(before, after), _without(after, before)
    parts = [*(f"- {plain(part)}" for part in removed), *(f"+ {plain(part)}" for part in added)]
    return ", ".join(parts) or "the same in another order"


def _from_difference(old: str, new: str) -> tuple[str, str]:
    """Returns both texts without their common beginning, if they are too long to be shown."""
    pairs = enumerate(zip(old, new, strict=False))
    same = next((place for place, (one, other) in pairs if one != other), min(len(old), len(new)))
    if max(len(old), len(new)) <= _MAX_LENGTH - 2 or same <= _AROUND:
        return old, new
    return f"…{old[same - _AROUND :]}", f"…{new[same - _AROUND :]}"
