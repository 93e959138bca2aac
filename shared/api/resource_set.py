"""ClusterResourceSets and their bindings as plain objects: names, selection and records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from shared.kube import Object, dig

FINALIZER = "addons.cluster.x-k8s.io"
SOURCE_TYPE: Final = "addons.cluster.x-k8s.io/resource-set"
"""The type that a Secret must have to be a source."""
OWNED_SOURCES: Final = "capi-functions.dev/owned-sources"
"""The annotation of a set that lists the sources that it owns or is about to own: `ConfigMap/one Secret/two`."""
_MAX_OWNED: Final = 1000
"""The listed sources that count."""


class SourceRef(NamedTuple):
    """The Secret or ConfigMap of the set's namespace that a set names."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def source_refs(resource_set: Mapping[str, Any]) -> tuple[SourceRef, ...]:
    """Returns the sources that the set names, each once, in their order."""
    return tuple(dict.fromkeys(_refs(dig(resource_set, "spec.resources", []))))


def owned_sources(resource_set: Mapping[str, Any]) -> tuple[SourceRef, ...]:
    """Returns the sources in the annotation `OWNED_SOURCES`."""
    listed = str(dig(resource_set, "metadata.annotations", {}).get(OWNED_SOURCES) or "").split()[:_MAX_OWNED]
    return tuple(SourceRef(kind, name) for kind, _, name in (one.partition("/") for one in listed))


def binding_entry(binding: Mapping[str, Any] | None, name: str) -> Object | None:
    """Returns the entry of the set `name` in the binding of a Cluster; None if there is none."""
    entries = dig(binding, "spec.bindings", [])
    return next((dict(one) for one in entries if dig(one, "clusterResourceSetName") == name), None)


def recorded_sources(entry: Mapping[str, Any] | None) -> dict[SourceRef, Object]:
    """Returns the record of each source in a set's entry."""
    records = dig(entry, "resources", [])
    return {ref: dict(record) for record in records for ref in _refs([record])}


def _refs(listed: list[Any]) -> Iterator[SourceRef]:
    for one in listed:
        kind, name = dig(one, "kind"), dig(one, "name")
        if isinstance(kind, str) and isinstance(name, str):
            yield SourceRef(kind, name)
