"""Reads the inputs of a decision about a ClusterResourceSet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shared import watch_filter
from shared.api.cluster import is_paused
from shared.api.resource_set import (
    SourceRef,
    binding_entry,
    owned_sources,
    recorded_sources,
    source_refs,
)
from shared.api.resources import CLUSTER, CLUSTER_RESOURCE_SET_BINDING, CONFIG_MAP, SECRET
from shared.clients import Clients
from shared.kube import Key, Object, deleting, dig, key_of
from shared.kube.selectors import validated
from shared.running_core import running_core
from shared.runtime import Request

_KINDS = {kind.kind: kind for kind in (SECRET, CONFIG_MAP)}


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision. Clusters and sources are read only if the decision needs them."""

    resource_set: Object | None
    core: str = ""
    """The Deployment of the Cluster API core that runs, which reconciles the set itself; empty if none runs."""
    selector_problem: str = ""
    clusters: tuple[Object, ...] = ()
    """The selected Clusters that are not being deleted."""
    bindings: Mapping[str, Object] = field(default_factory=dict)
    """The bindings of the namespace by name, which is the name of the Cluster."""
    sources: Mapping[SourceRef, Object | None] = field(default_factory=dict, repr=False)
    """The sources that the set names or owns, or that bindings record for it; None for a missing source."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads Clusters, bindings and sources. Raises `ApiError`."""
    resource_set = request.primary
    if resource_set is None:
        return Observed(None)
    core = running_core(clients.management, clients.remembered)
    if core or is_paused(resource_set):
        return Observed(resource_set, core)
    namespace, name = key_of(resource_set)
    bindings = {key_of(one).name: one for one in clients.management.list(CLUSTER_RESOURCE_SET_BINDING, namespace)}
    observed = Observed(resource_set, bindings=bindings)
    if not deleting(resource_set):
        try:
            observed = replace(observed, clusters=_clusters(clients, resource_set))
        except ValueError as error:
            observed = replace(observed, selector_problem=str(error))
    recorded = [ref for binding in bindings.values() for ref in recorded_sources(binding_entry(binding, name))]
    named = source_refs(resource_set) if observed.clusters or deleting(resource_set) else ()
    sources = {
        ref: clients.management.find(_KINDS[ref.kind], Key(namespace, ref.name))
        for ref in dict.fromkeys((*named, *owned_sources(resource_set), *recorded))
        if ref.kind in _KINDS
    }
    return replace(observed, sources=sources)


def _clusters(clients: Clients, resource_set: Object) -> tuple[Object, ...]:
    """Returns the selected Clusters. Raises ValueError for an invalid selector, or `ApiError`."""
    selector = validated(dig(resource_set, "spec.clusterSelector", {}))
    if not selector:
        return ()
    found = clients.management.list(CLUSTER, key_of(resource_set).namespace, selector=selector)
    return tuple(one for one in found if watch_filter.admits(one) and not deleting(one))
