"""Facts in documents of `describe`, as short lines, and the lines that differ between two states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shared.api.conditions import counted
from shared.kube import Object

from ..text import plain


def changes(before: Sequence[Object], after: Sequence[Object]) -> list[str]:
    """Returns a line for each fact that is new or different, and for each that is gone. Ages are no facts."""
    former, present = dict(_facts(list(before))), dict(_facts(list(after)))
    lines = [f"{name}: {text}" for name, text in present.items() if former.get(name) != text]
    return [*lines, *(f"{name}: gone" for name in former if name not in present)]


def _facts(value: Any) -> Iterator[tuple[str, str]]:
    """Yields facts as (name, text), of the value and everything in it."""
    if isinstance(value, list):
        for item in value:
            yield from _facts(item)
    if not isinstance(value, Mapping):
        return
    if "name" in value and "kind" in value:
        yield from _facts_of_object(value)
    if value.get("object") and "reason" in value and "at" in value:
        yield f"event {value['at']} {value['object']}", _why(value).strip()
    for name, item in value.items():
        if name != "conditions":
            yield from _facts(item)


def _facts_of_object(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    name = plain(f"{fields['kind']} {fields['name']}", most=200)
    if fields.get("state"):
        yield name, plain(fields["state"])
    if fields.get("deleting"):
        yield name, "is being deleted"
    for field in ("phase", "version"):
        if fields.get(field):
            yield f"{name} {field}", plain(fields[field])
    if "ready" in fields:
        yield f"{name} ready", f"{fields['ready']}{_why(fields)}"
    for condition in fields.get("conditions", []):
        if "type" in condition:
            yield f"{name} {plain(condition['type'])}", f"{plain(condition.get('status'))}{_why(condition)}"
    for part, number in fields.get("inventory", {}).get("counts", {}).items():
        yield f"{name} objects {part}", str(number)
    for part, number in fields.get("replicas", {}).items():
        yield f"{name} replicas {part}", str(number)
    groups = [f"{counted(group['count'], 'Machine')} Ready={group['ready']}{_why(group)}" for group in _groups(fields)]
    if groups:
        yield f"{name} Machines", "; ".join(groups)


def _groups(fields: Mapping[str, Any]) -> list[Object]:
    found = fields.get("machines", [])
    return found if isinstance(found, list) else []


def _why(fields: Mapping[str, Any]) -> str:
    detail = ": ".join(str(fields[name]) for name in ("reason", "message") if fields.get(name))
    return f" {plain(detail, most=300)}" if detail else ""
