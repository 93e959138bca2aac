"""Fields inside objects: whether one object holds what another asks for, and single fields by the paths that
server-side apply writes (`.spec.containers[name="web"].image`).
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


def contains(live: Any, wanted: Any) -> bool:
    """Whether applying `wanted` over `live` would change nothing that is written there.

    A value that the server stores in another form (`1` for `1000m`, nothing for `hostNetwork: false`) reads as a
    difference; `stored` tells whether it is one. Lists count as wholes, item by item, since their merge keys are not
    known here, but for owner references, to which others add theirs.
    """
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(
            _field_contains(name, live[name], value) if name in live else _empty(value)
            for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(live) == len(wanted)
            and all(contains(mine, theirs) for mine, theirs in zip(live, wanted, strict=True))
        )
    return type(live) is type(wanted) and bool(live == wanted)


def _field_contains(name: str, live: Any, wanted: Any) -> bool:
    if name != "ownerReferences" or not isinstance(live, list) or not isinstance(wanted, list):
        return contains(live, wanted)
    by_uid = {reference.get("uid"): reference for reference in live if isinstance(reference, Mapping)}
    return all(contains(by_uid.get(dig(reference, "uid")), reference) for reference in wanted)


def stored(live: Any, wanted: Any) -> Any:
    """The part of `live` that `wanted` writes, in the form in which the server stores it.

    Equal after the object was applied and now: nobody has changed any of it meanwhile.
    """
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        return {name: stored(live[name], value) for name, value in wanted.items() if name in live}
    if isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        return [stored(mine, theirs) for mine, theirs in zip(live, wanted, strict=True)]
    return live


def _empty(value: Any) -> bool:
    """What a server leaves out."""
    return value is None or value in ({}, [])


def differences(live: Any, wanted: Any, path: str = "") -> list[str]:
    """The paths at which `wanted` asks for something else, names only, no values."""
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        found: list[str] = []
        for name, value in wanted.items():
            if name in live and _field_contains(name, live[name], value):
                continue
            if name in live or not _empty(value):
                found += differences(live.get(name), value, f"{path}.{name}" if path else name)
        return found
    return [] if contains(live, wanted) else [path]


def resolve(obj: Any, path: str) -> list[PathStep] | None:
    """The steps from `obj` to the field at `path`; None where there is no such field.

    Paths do not tell dots in names from dots between them, so at each mapping the longest name that fits is taken.
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
    if selector.isdecimal():
        return int(selector) == index
    for name, text in _PAIR.findall(selector):
        try:
            value = json.loads(text)
        except ValueError:
            return False
        if (item.get(name) if name and isinstance(item, Mapping) else item) != value:
            return False
    return True


def without(obj: Object, path: str) -> Object:
    """A copy of `obj` that does not mention the field at `path`."""
    result = deepcopy(obj)
    steps = resolve(result, path)
    if steps:
        del _parent(result, steps)[steps[-1]]
    return result


def with_live(obj: Object, live: Object, path: str) -> Object:
    """A copy of `obj` with the value that the field at `path` has in `live`, where both have one."""
    result = deepcopy(obj)
    steps, there = resolve(result, path), resolve(live, path)
    if steps and there:
        _parent(result, steps)[steps[-1]] = deepcopy(_parent(live, there)[there[-1]])
    return result


def _parent(obj: Any, steps: list[PathStep]) -> Any:
    for step in steps[:-1]:
        obj = obj[step]
    return obj
