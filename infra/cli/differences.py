"""What differs in one field, in a few lines: in a long text or list only what is other there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from shared.applier.diff import ABSENT, REDACTED, FieldDiff

from .text import plain, value

_MOST = 100
"""Characters of a value that are shown."""
_AROUND = 20
"""Characters before the first difference."""
_ITEMS = 20
"""Lines for a list."""
_FLAG = re.compile(r"(--?[A-Za-z][\w.-]*=).*", re.DOTALL)


def lines(field: FieldDiff) -> Iterator[str]:
    """The field and what becomes of it; of a list the items below it."""
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
    gone, come = _without(old, new), _without(new, old)
    if not gone and not come:
        yield f"{path}: the same items in another order, or another number of times"
        return
    yield f"{path}:"
    told = list(_items(gone, come))
    yield from (f"  {line}" for line in told[:_ITEMS])
    if len(told) > _ITEMS:
        yield f"  and {len(told) - _ITEMS} more"


def _without(items: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    return [item for item in items if item not in others]


def _items(gone: Sequence[Any], come: Sequence[Any]) -> Iterator[str]:
    """A flag that has another value counts as changed, not as gone and come."""
    come = list(come)
    for item in gone:
        other = next((each for each in come if _flag(item) and _flag(each) == _flag(item)), None)
        if other is None:
            yield f"- {value(item, most=5 * _MOST)}"
        else:
            come.remove(other)
            yield f"~ {_changed(item, other)}"
    for item in come:
        yield f"+ {value(item, most=5 * _MOST)}"


def _flag(item: Any) -> str:
    """`--feature-gates=` of `--feature-gates=A=true`; empty for what is no flag with a value."""
    match = _FLAG.fullmatch(item) if isinstance(item, str) else None
    return match[1] if match else ""


def _changed(old: Any, new: Any) -> str:
    if isinstance(old, str) and isinstance(new, str):
        if (name := _flag(old)) and name == _flag(new) and "," in old + new:
            return f"{name} {_parts(old.removeprefix(name), new.removeprefix(name))}"
        old, new = _from_difference(old, new)
    return f"{value(old, most=_MOST)} -> {value(new, most=_MOST)}"


def _parts(old: str, new: str) -> str:
    """Of values with commas, such as feature gates."""
    before, after = old.split(","), new.split(",")
    gone, come = _without(before, after), _without(after, before)
    told = [*(f"- {plain(part)}" for part in gone), *(f"+ {plain(part)}" for part in come)]
    return ", ".join(told) or "the same in another order"


def _from_difference(old: str, new: str) -> tuple[str, str]:
    """Both without what they begin with alike, where they are too long to be shown."""
    pairs = enumerate(zip(old, new, strict=False))
    same = next((place for place, (one, other) in pairs if one != other), min(len(old), len(new)))
    if max(len(old), len(new)) <= _MOST - 2 or same <= _AROUND:
        return old, new
    return f"…{old[same - _AROUND :]}", f"…{new[same - _AROUND :]}"
