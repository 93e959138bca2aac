"""Starts `source_wake` when a Secret or ConfigMap changes that an object reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from shared import profiles
from shared.api.resources import CLUSTER_RESOURCE_SET, CONFIG_MAP, HELM_CHART_PROXY, HELM_RELEASE_PROXY, SECRET
from shared.kube import Key, Resource, key_of
from shared.triggers import READ_CRDS, Referrer, Rule, Triggers, Watch
from shared.wake import CHANGED

from .decide import sources


def _named(kind: Resource) -> Callable[[Mapping[str, Any]], Iterable[Key]]:
    """Returns the function that maps an object to the keys of the sources of a kind that it reads."""

    def keys(reader: Mapping[str, Any]) -> Iterable[Key]:
        return [Key(key_of(reader).namespace, source.name) for source in sources(reader) if source.kind == kind.kind]

    return keys


def _watch(kind: Resource) -> Watch:
    names = _named(kind)
    readers = tuple(Referrer(reader, names) for reader in (CLUSTER_RESOURCE_SET, HELM_RELEASE_PROXY))
    return Watch(kind, reference=True, referenced_by=readers)


TRIGGERS = Triggers(
    name="source_wake",
    profiles=profiles.ADDONS,
    watches=(_watch(SECRET), _watch(CONFIG_MAP)),
    primary_kinds=(),
    rules=(
        Rule(
            HELM_CHART_PROXY.group,
            tuple(kind.plural for kind in (HELM_CHART_PROXY, HELM_RELEASE_PROXY, CLUSTER_RESOURCE_SET)),
            ("list",),
        ),
        READ_CRDS,
    ),
    emits=(CHANGED,),
    reports=False,
)
