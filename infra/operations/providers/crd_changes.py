"""Summarises changes of CRDs: removed versions and fields, without the descriptions that fill schemas."""

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
    """Returns whether the changed object is a CRD."""
    return (change.entry.group, change.entry.kind) == (CRD.group, CRD.kind)


def removals(changes: Iterable[Change]) -> Sequence[str]:
    """Returns one text for each removed or unserved version, and for each removed field."""
    return [f"{change.entry.name}: {text}" for change in changes if is_crd(change) for text in _removals(change.fields)]


def without_descriptions(change: Change) -> Change:
    """Returns the change for text output: without descriptions and generator, with short paths of schema fields."""
    if not is_crd(change):
        return change
    fields = [replace(field, path=_brief(field.path)) for field in change.fields if not _describes(field)]
    left_out = len(change.fields) - len(fields)
    text = f"changed descriptions: {left_out}" if left_out else ""
    return replace(change, fields=tuple(fields), reason="; ".join(filter(None, (change.reason, text))))


def _removals(fields: Iterable[FieldDiff]) -> Iterable[str]:
    for field in fields:
        version, schema = _VERSION.fullmatch(field.path), _SCHEMA.fullmatch(field.path)
        if version and not version[2] and field.new is ABSENT:
            yield f"{version[1]} is removed"
        elif version and version[2] and field.new is False:
            yield f"{version[1]} is no longer served"
        elif schema and field.new is ABSENT and _PROPERTY.fullmatch(schema[2]):
            yield f"{schema[1]} no longer has {_short(schema[2])}"


def _describes(field: FieldDiff) -> bool:
    """Returns whether the field is the description in a schema, or the version of the generator."""
    if field.path == _GENERATOR:
        return True
    schema = _SCHEMA.fullmatch(field.path)
    return bool(schema and schema[2].endswith("description") and not _PROPERTY.fullmatch(schema[2]))


def _brief(path: str) -> str:
    schema = _SCHEMA.fullmatch(path)
    return f"{schema[1]}: {_short(schema[2])}" if schema else path


def _short(path: str) -> str:
    """Shortens `properties.spec.properties.a.items.properties.b` to `spec.a.b`; a field may itself be named `items`."""
    steps, found = path.split("."), []
    while steps:
        step = steps.pop(0)
        if step == "properties" and steps:
            found.append(steps.pop(0))
        elif step not in ("items", "additionalProperties"):
            return ".".join([*found, step, *steps])
    return ".".join(found)
