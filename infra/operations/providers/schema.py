"""Finds unknown fields in a provider: the API server drops them, with no more than a warning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from infra.local.crds import FOLDER
from shared.api.provider import kind_of
from shared.kube import Object, dig

from .. import manifests

_OPEN = "x-kubernetes-preserve-unknown-fields"


def unknown_fields(provider: Object) -> Iterator[str]:
    """Yields a note for each field of `spec` that the CRD does not have."""
    for path, name, known in _unknown(provider.get("spec"), _schema(provider), "spec"):
        meant = get_close_matches(name, known, 1)
        yield f"{path}.{name} is not a field of a provider" + (f"; did you mean {meant[0]}?" if meant else "")


def _schema(provider: Object) -> Mapping[str, Any]:
    resource = kind_of(provider).resource
    [crd] = manifests.load(FOLDER / f"{resource.group}_{resource.plural}.yaml")
    version = next(one for one in crd["spec"]["versions"] if one["name"] == resource.version)
    found: Mapping[str, Any] = dig(version, "schema.openAPIV3Schema.properties.spec")
    return found


def _unknown(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yields path and name of each unknown field, and the names that are known at this path."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, schema.get("items") or {}, f"{path}[{index}]")
    if not isinstance(value, Mapping) or schema.get(_OPEN):
        return
    known, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, below in value.items():
        if name in known or isinstance(others, Mapping):
            yield from _unknown(below, known.get(name) or others or {}, f"{path}.{name}")
        elif known and not others:
            yield path, str(name), list(known)
