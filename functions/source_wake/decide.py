"""Decides which objects read a Secret or ConfigMap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shared.api.resource_set import SourceRef, source_refs
from shared.api.resources import CLUSTER_RESOURCE_SET
from shared.kube import dig

_TEMPLATE = "{{"


def sources(reader: Mapping[str, Any]) -> Iterator[SourceRef]:
    """Yields the sources that a ClusterResourceSet, HelmChartProxy or HelmReleaseProxy names."""
    if reader.get("kind") == CLUSTER_RESOURCE_SET.kind:
        yield from source_refs(reader)
    else:
        for source in dig(reader, "spec.valuesFrom", []):
            yield SourceRef(str(dig(source, "kind", "")), str(dig(source, "name", "")))


def reads(reader: Mapping[str, Any], changed: SourceRef) -> bool:
    """Returns whether an object reads the source. A template of a HelmChartProxy may result in any name."""
    return any(
        source.kind == changed.kind and (source.name == changed.name or _TEMPLATE in source.name)
        for source in sources(reader)
    )
