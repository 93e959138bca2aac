"""The marks of an installed object: fields with labels and owner references of this project, and CA certificates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from shared.api.names import OWNED_LABEL
from shared.api.provider import COMPONENT_LABEL, PROVIDER_LABEL
from shared.applier.diff import FieldDiff
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
    """Returns whether the field is a mark."""
    return field.path in _PLAIN or bool(_OTHERS.fullmatch(field.path)) or _only_marks(field)


def _only_marks(field: FieldDiff) -> bool:
    """Returns whether all labels, or all annotations, are added or removed at once and all of them are marks."""
    names = _NAMES.get(field.path.removeprefix("metadata."), ())
    values = [value for value in (field.old, field.new) if isinstance(value, Mapping)]
    return len(values) == 1 and values[0].keys() <= set(names)


def is_only_marked(change: Change) -> bool:
    """Returns whether the update would change marks only."""
    return change.action == "update" and bool(change.fields) and all(map(is_mark, change.fields))


def without_marks(change: Change) -> Change:
    """Returns the change without marks, for text output."""
    if change.action != "update":
        return change
    return replace(change, fields=tuple(field for field in change.fields if not is_mark(field)))
