"""What matters of a change of a CRD: versions and fields that go. Schemas are long, and consist of descriptions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from shared.applier.diff import ABSENT, FieldDiff
from shared.applier.preview import Change
from shared.kube.crds import CRD

_VERSION = re.compile(r'spec\.versions\[name="([^"]+)"\](\.served)?')
_SCHEMA = re.compile(r'spec\.versions\[name="([^"]+)"\]\.schema\.openAPIV3Schema\.(.+)')
_GENERATOR = "metadata.annotations.controller-gen.kubebuilder.io/version"
_PROPERTY = re.compile(r"(?:.*\.)?properties\.[^.]+")


def is_crd(change: Change) -> bool:
    return (change.entry.group, change.entry.kind) == (CRD.group, CRD.kind)


def dropped(changes: Iterable[Change]) -> Sequence[str]:
    """Versions that are there no more, or are served no more, and fields that a version has no more."""
    return [f"{change.entry.name}: {told}" for change in changes if is_crd(change) for told in _gone(change.fields)]


def brief(change: Change) -> Change:
    """For people: without descriptions and who generated them, and with the fields of a schema by their own paths."""
    if not is_crd(change):
        return change
    fields = [replace(field, path=_brief(field.path)) for field in change.fields if not _describes(field)]
    left_out = len(change.fields) - len(fields)
    told = f"changed descriptions: {left_out}" if left_out else ""
    return replace(change, fields=tuple(fields), reason="; ".join(filter(None, (change.reason, told))))


def _gone(fields: Iterable[FieldDiff]) -> Iterable[str]:
    for field in fields:
        version, schema = _VERSION.fullmatch(field.path), _SCHEMA.fullmatch(field.path)
        if version and not version[2] and field.new is ABSENT:
            yield f"{version[1]} goes"
        elif version and version[2] and field.new is False:
            yield f"{version[1]} is served no more"
        elif schema and field.new is ABSENT and _PROPERTY.fullmatch(schema[2]):
            yield f"{schema[1]} has no {_short(schema[2])} any more"


def _describes(field: FieldDiff) -> bool:
    if field.path == _GENERATOR:
        return True
    schema = _SCHEMA.fullmatch(field.path)
    return bool(schema and schema[2].endswith("description") and not _PROPERTY.fullmatch(schema[2]))


def _brief(path: str) -> str:
    schema = _SCHEMA.fullmatch(path)
    return f"{schema[1]}: {_short(schema[2])}" if schema else path


def _short(path: str) -> str:
    """`properties.spec.properties.a.items.properties.b` is `spec.a.b`; a field may itself be called `items`."""
    steps, found = path.split("."), []
    while steps:
        step = steps.pop(0)
        if step == "properties" and steps:
            found.append(steps.pop(0))
        elif step not in ("items", "additionalProperties"):
            return ".".join([*found, step, *steps])
    return ".".join(found)
