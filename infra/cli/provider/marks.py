"""What every object of a provider gets so that it is known as ours, and what its certificates bring along."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from shared.api.provider import COMPONENT_LABEL, PROVIDER_LABEL
from shared.applier.diff import FieldDiff
from shared.applier.inventory import OWNED_LABEL
from shared.applier.preview import Change
from shared.components.certificates import INJECT

_NAMES = {"labels": (OWNED_LABEL, PROVIDER_LABEL, COMPONENT_LABEL), "annotations": (INJECT,)}
_PLAIN = {f"metadata.{where}.{name}" for where, names in _NAMES.items() for name in names}
_OTHERS = re.compile(
    r"metadata\.ownerReferences\b.*"
    r"|(webhooks\[[^\]]+\]|spec\.conversion\.webhook)\.clientConfig\.caBundle"
    r"|spec\.caBundle"
)


def is_mark(field: FieldDiff) -> bool:
    return field.path in _PLAIN or bool(_OTHERS.fullmatch(field.path)) or _all_of_them(field)


def _all_of_them(field: FieldDiff) -> bool:
    """Where an object had no labels or annotations at all, or has none any more."""
    names = _NAMES.get(field.path.removeprefix("metadata."), ())
    values = [value for value in (field.old, field.new) if isinstance(value, Mapping)]
    return len(values) == 1 and values[0].keys() <= set(names)


def only_marked(change: Change) -> bool:
    """Whether nothing else of the object would change, though others may hold fields of the very same values."""
    return change.action == "update" and bool(change.fields) and all(map(is_mark, change.fields))


def without(change: Change) -> Change:
    """For people: an object that is updated, without its marks."""
    if change.action != "update":
        return change
    return replace(change, fields=tuple(field for field in change.fields if not is_mark(field)))
