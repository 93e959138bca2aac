"""Fields inside objects: whether a live object has all applied values, and access by field path.

Paths have the syntax of server-side apply's conflict messages: `.spec.containers[name="web"].image`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from ..kube import Object, dig

_SELECTOR = re.compile(r"\[((?:[^\]\"]|\"(?:[^\"\\]|\\.)*\")*)\]")
_PAIR = re.compile(r"(\w*)=((?:\"(?:[^\"\\]|\\.)*\")|[^,]+)")

PathStep = str | int


def contains(live: Any, desired: Any) -> bool:
    """Returns whether `live` has every value of `desired`, so that an apply would change nothing.

    A value that the server stores in another form (`1` for `1000m`, nothing for `hostNetwork: false`) counts as a
    difference; `stored` distinguishes this from a real one. Lists are compared item by item, since their merge
    keys are not known here. Owner references are compared by uid, since others add theirs.
    """
    if isinstance(desired, Mapping):
        return isinstance(live, Mapping) and all(
            _field_contains(name, live[name], value) if name in live else _empty(value)
            for name, value in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(live, list)
            and len(live) == len(desired)
            and all(contains(live_item, desired_item) for live_item, desired_item in zip(live, desired, strict=True))
        )
    return type(live) is type(desired) and bool(live == desired)


def _field_contains(name: str, live: Any, desired: Any) -> bool:
    """Returns whether the live field has every desired value; owner references are compared by uid."""
    if name != "ownerReferences" or not isinstance(live, list) or not isinstance(desired, list):
        return contains(live, desired)
    by_uid = {reference.get("uid"): reference for reference in live if isinstance(reference, Mapping)}
    return all(contains(by_uid.get(dig(reference, "uid")), reference) for reference in desired)


def stored(live: Any, desired: Any) -> Any:
    """Returns the part of `live` that `desired` sets, in the form in which the server stores it.

    If this part is the same as right after the apply, nobody has changed the object since.
    """
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        return {name: stored(live[name], value) for name, value in desired.items() if name in live}
    if isinstance(desired, list) and isinstance(live, list) and len(desired) == len(live):
        return [stored(live_item, desired_item) for live_item, desired_item in zip(live, desired, strict=True)]
    return live


def _empty(value: Any) -> bool:
    """Returns whether servers omit the value when they store an object."""
    return value is None or value in ({}, [])


def differences(live: Any, desired: Any, path: str = "") -> list[str]:
    """Returns the paths at which `live` differs from `desired`, without values."""
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        found: list[str] = []
        for name, value in desired.items():
            if name in live and _field_contains(name, live[name], value):
                continue
            if name in live or not _empty(value):
                found += differences(live.get(name), value, f"{path}.{name}" if path else name)
        return found
    return [] if contains(live, desired) else [path]


def resolve(obj: Any, path: str) -> list[PathStep] | None:
    """Returns the keys and indexes that lead from `obj` to the field at `path`; None if there is no such field.

    A dot in a path may be a separator or a part of a name, so the longest matching name is tried first.
    """
    rest = path.lstrip(".")
    if not rest:
        return []
    if isinstance(obj, Mapping):
        for name in sorted((name for name in obj if rest.startswith(name)), key=len, reverse=True):
            after = rest[len(name) :]
            if after[:1] in ("", ".", "["):
                further = resolve(obj[name], after)
                if further is not None:
                    return [name, *further]
    elif isinstance(obj, list) and (match := _SELECTOR.match(rest)):
        for index, item in enumerate(obj):
            if _selects(match[1], item, index):
                further = resolve(item, rest[match.end() :])
                if further is not None:
                    return [index, *further]
    return None


def _selects(selector: str, item: Any, index: int) -> bool:
    """Returns whether a selector selects the list item at `index`: `[0]`, `[name="web"]` or `[="value"]`."""
    if selector.isdecimal():
        return selector == str(index)
    for name, text in _PAIR.findall(selector):
        try:
            value = json.loads(text)
        except ValueError:
            return False
        if (item.get(name) if name and isinstance(item, Mapping) else item) != value:
            return False
    return True


def without(obj: Object, path: str) -> Object:
    """Returns a copy of `obj` without the field at `path`."""
    result = deepcopy(obj)
    steps = resolve(result, path)
    if steps:
        del _parent(result, steps)[steps[-1]]
    return result


def with_live(obj: Object, live: Object, path: str) -> Object:
    """Returns a copy of `obj` with the live value of the field at `path`, if both objects have it."""
    result = deepcopy(obj)
    steps, there = resolve(result, path), resolve(live, path)
    if steps and there:
        _parent(result, steps)[steps[-1]] = deepcopy(_parent(live, there)[there[-1]])
    return result


def _parent(obj: Any, steps: list[PathStep]) -> Any:
    for step in steps[:-1]:
        obj = obj[step]
    return obj
