"""Makes us the manager of fields that the server has set and that exclude applied fields.

An API server completes objects: a Deployment without a strategy gets `rollingUpdate`, which no manager owns. So
server-side apply keeps the field when a release sets `type: Recreate`, and the server rejects the result. Once our
entry in `metadata.managedFields` has the field, the next apply removes it, together with the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ..kube import Object, dig
from .adoption import union
from .diff import OwnedFields, matches_key
from .fields import MAX_PATHS, PathStep, resolve
from .owner import Owner

_FORBIDDEN = "FieldValueForbidden"
_REASONS = (_FORBIDDEN, "FieldValueInvalid")


def may_be_excluded(obj: Object, refusal: Mapping[str, Any] | None) -> bool:
    """Returns whether a rejection may concern a server-set field that `obj` lacks or excludes."""
    return any(reason == _FORBIDDEN or resolve(obj, path) is None for reason, path in _causes(refusal))


def claimed_fields(obj: Object, live: Object, refusal: Mapping[str, Any] | None, owner: Owner) -> list[Object] | None:
    """Returns the `managedFields` in which our apply owns the excluded fields too; None if there are none.

    Only fields that no manager owns and that `obj` lacks are claimed.

    Args:
        obj: The rejected object.
        live: The live object.
        refusal: The Status object of the rejection. A cause names the field to remove, or, with the reason
            `FieldValueForbidden`, the field of `obj` that excludes it.
        owner: The owner that applies the object.
    """
    entries: list[Object] = dig(live, "metadata.managedFields", [])
    ours = next((entry for entry in entries if owner.has_applied(entry)), None)
    if ours is None:
        return None
    fields = ours.get("fieldsV1", {})
    for steps in _excluded(obj, live, refusal):
        if not _owned(live, steps):
            fields = union(fields, _as_fields(fields, live, steps) or {})
    if fields == ours.get("fieldsV1"):
        return None
    return [{**entry, "fieldsV1": fields} if entry is ours else entry for entry in entries]


def _excluded(obj: Object, live: Object, refusal: Mapping[str, Any] | None) -> Iterator[Sequence[PathStep]]:
    """Yields the paths of the live fields that a rejection names and `obj` lacks."""
    for reason, path in _causes(refusal):
        theirs, own = resolve(live, path), resolve(obj, path)
        if own is None and theirs:
            yield theirs
        elif own and reason == _FORBIDDEN:
            *parent, _ = own
            mine, beside = _at(obj, parent), _at(live, parent)
            if isinstance(mine, Mapping) and isinstance(beside, Mapping) and mine.get("name") == beside.get("name"):
                yield from ([*parent, name] for name in beside if name not in mine)


def _causes(refusal: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yields reason and path of the rejected fields."""
    for cause in dig(refusal or {}, "details.causes", [])[:MAX_PATHS]:
        if isinstance(cause, Mapping) and cause.get("reason") in _REASONS:
            yield cause["reason"], str(cause.get("field"))


def _owned(live: Object, steps: Sequence[PathStep]) -> bool:
    """Returns whether any manager owns the field at these steps, or a field inside it."""
    owned, value = OwnedFields.by_managers(live), cast(Any, live)
    for step in steps:
        value = value[step]
        owned = owned.item(value) if isinstance(step, int) else owned.of_field(step)
    return bool(owned)


def _as_fields(ours: Mapping[str, Any], live: Any, steps: Sequence[PathStep]) -> Object | None:
    """Returns the path in the form of `fieldsV1`; None if it leads through a list item that we do not own."""
    if not steps:
        return {}
    first, *rest = steps
    below = live[first]
    if isinstance(first, int):
        key = next((name for name in ours if name.startswith("k:") and matches_key(below, name[2:])), None)
    else:
        key = f"f:{first}"
    inner = None if key is None else _as_fields(ours.get(key, {}), below, rest)
    return None if key is None or inner is None else {key: inner}


def _at(obj: Any, steps: Sequence[PathStep]) -> Any:
    """Returns the value at these steps; None if there is none."""
    for step in steps:
        found = isinstance(obj, Mapping) and step in obj
        if not found and not (isinstance(obj, list) and isinstance(step, int) and step < len(obj)):
            return None
        obj = obj[step]
    return obj
