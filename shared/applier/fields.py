"""Fields inside objects: whether a live object has all applied values, and access by field path.

Paths have the syntax of server-side apply's conflict messages: `.spec.containers[name="web"].image`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from json import JSONDecoder
from typing import Any, NamedTuple

from ..kube import Object, dig

MAX_PATH = 1024
"""The maximum number of characters of a path, because annotations and workload API servers are untrusted."""
MAX_PATHS = 100
"""The maximum number of paths of one annotation, and of conflicts of one apply."""

PathStep = str | int

_JSON = JSONDecoder()


def contains(live: Any, desired: Any) -> bool:
    """Returns whether `live` has every value of `desired`, so that an apply would change nothing.

    A value that the server stores in another form (`1` for `1000m`, nothing for `hostNetwork: false`) counts as a
    difference; `stored` distinguishes this from a real one. Lists are compared item by item, because their merge keys
    are unknown here. Owner references are compared by uid, because others add theirs.
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

    If this part is the same as after the apply, nobody has changed the object.
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

    A dot in a path may be a separator or a part of a name, so the longest matching name is tried first. A path of more
    than `MAX_PATH` characters leads to no field.
    """
    return _resolve(obj, path, 0) if len(path) <= MAX_PATH else None


def _resolve(obj: Any, path: str, at: int) -> list[PathStep] | None:
    """Resolves the part of the path that begins at the position `at`."""
    while path.startswith(".", at):
        at += 1
    if at == len(path):
        return []
    if isinstance(obj, Mapping):
        for name in sorted((name for name in obj if name and path.startswith(name, at)), key=len, reverse=True):
            after = at + len(name)
            if path[after : after + 1] in ("", ".", "["):
                further = _resolve(obj[name], path, after)
                if further is not None:
                    return [name, *further]
    elif isinstance(obj, list) and (selector := _selector(path, at)):
        for index, item in enumerate(obj):
            if selector.selects(item, index):
                further = _resolve(item, path, selector.end)
                if further is not None:
                    return [index, *further]
    return None


class _Selector(NamedTuple):
    """A selector of list items, and the position after it.

    `[0]` has a `position`. `[name="web"]` has `values` by field, and `[="value"]` a value of the item itself, by "".
    """

    position: int | None
    values: tuple[tuple[str, Any], ...]
    end: int

    def selects(self, item: Any, index: int) -> bool:
        """Returns whether the selector selects the list item at `index`."""
        if self.position is not None:
            return self.position == index
        return all(
            (item.get(name) if name and isinstance(item, Mapping) else item) == value for name, value in self.values
        )


def _selector(path: str, at: int) -> _Selector | None:
    """Parses the selector that begins at the position `at`; None if none begins there. Reads each character once."""
    values: list[tuple[str, Any]] = []
    while path.startswith(("[", ",") if values else "[", at):
        at += 1
        begin = at
        while path[at : at + 1].isalnum() or path.startswith("_", at):
            at += 1
        name = path[begin:at]
        if not values and name.isdecimal() and path.startswith("]", at):
            return _Selector(int(name), (), at + 1)
        if not path.startswith("=", at):
            return None
        try:
            value, at = _JSON.raw_decode(path, at + 1)
        except (ValueError, RecursionError):
            return None
        values.append((name, value))
        if path.startswith("]", at):
            return _Selector(None, tuple(values), at + 1)
    return None


def without(obj: Object, path: str) -> Object:
    """Returns `obj` without the field at `path`. The result shares all other values with `obj`."""
    steps = resolve(obj, path)

    def remove(parent: Any, step: PathStep) -> None:
        del parent[step]

    return _changed(obj, steps, remove) if steps else obj


def without_nulls(obj: Object, refusal: Mapping[str, Any] | None) -> Object | None:
    """Returns `obj` without the null fields that a rejection names; None if it names none.

    A server takes null in a field that is not nullable for an absent one, as an API server does itself at a creation,
    but not at a server-side apply.
    """
    result = obj
    for cause in dig(refusal or {}, "details.causes", [])[:MAX_PATHS]:
        path = str(dig(cause, "field", ""))
        steps = resolve(result, path)
        if steps and isinstance(steps[-1], str) and _at(result, steps) is None:
            result = without(result, path)
    return None if result is obj else result


def _at(obj: Any, steps: list[PathStep]) -> Any:
    """Returns the value to which the steps lead."""
    for step in steps:
        obj = obj[step]
    return obj


def with_live(obj: Object, live: Object, path: str) -> Object:
    """Returns `obj` with the live value of the field at `path`, if both objects have the field.

    The result shares all other values with `obj`.
    """
    steps, there = resolve(obj, path), resolve(live, path)
    if not steps or not there:
        return obj
    value = _at(live, there)

    def replace(parent: Any, step: PathStep) -> None:
        parent[step] = deepcopy(value)

    return _changed(obj, steps, replace)


def _changed(obj: Object, steps: list[PathStep], change: Callable[[Any, PathStep], None]) -> Object:
    """Returns a copy of `obj` with a change in the last mapping or list on the way; copies all on the way."""
    result = copy(obj)
    parent: Any = result
    for step in steps[:-1]:
        parent[step] = copy(parent[step])
        parent = parent[step]
    change(parent, steps[-1])
    return result
