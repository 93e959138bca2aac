"""Decides what a ClusterResourceSet applies to which Clusters, and what it leaves when it is deleted."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator
from dataclasses import dataclass
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.api.core import MANAGED_BY_CORE
from shared.api.resource_set import (
    FINALIZER,
    OWNED_SOURCES,
    SOURCE_TYPE,
    SourceRef,
    binding_entry,
    owned_sources,
    recorded_sources,
    source_refs,
)
from shared.api.resources import CLUSTER_RESOURCE_SET, CONFIG_MAP, SECRET
from shared.clients import Clients
from shared.effects import Effect, Patch, RemoveFinalizer, Results, ensure_finalizer
from shared.kube import ApiError, Conflict, Object, Resource, deleting, dig, key_of, owner_reference, with_owner
from shared.runtime import Decision, KubernetesEvent

from .apply import ApplySources, Work
from .bindings import is_recorded, leave, without_owner
from .observe import Observed
from .sources import Source, SourceError, has_wrong_type
from .status import Problem, ProblemKind, SetStatusBuilder

log = logging.getLogger("capi-functions")

WAIT_RETRY = 20.0
"""Seconds until the next look at Clusters whose API server cannot be used yet, or that were not tried."""
FAILED_RETRY = 30.0
"""Seconds until objects that failed are applied again."""
LEFT_TO_CORE = KubernetesEvent(
    MANAGED_BY_CORE,
    "Cluster API core runs and reconciles ClusterResourceSets, so functions leave them to core",
    once=True,
)


@dataclass(frozen=True)
class OwnSource(Patch):
    """Makes the set an owner of a source, so that `clusterctl move` moves both. A rejected patch delays nothing."""

    def execute(self, clients: Clients) -> Object:
        """Returns the patched source, or the source as it was. Raises `Conflict` if it was changed."""
        try:
            return super().execute(clients)
        except Conflict:
            raise
        except ApiError as error:
            log.warning("the owner of %s %s is not set: HTTP %s", self.resource.kind, key_of(self.obj), error.status)
            return dict(self.obj)


def decide(observed: Observed, now: datetime, results: Results | None = None) -> Decision:
    """Decides about one set: leave it to core, wait while it is paused, clean up after it, or apply its objects."""
    resource_set = observed.resource_set
    if resource_set is None:
        return Decision(message="the ClusterResourceSet does not exist")
    if observed.core:
        return Decision(
            kubernetes_events=(LEFT_TO_CORE,), message=f"Cluster API core {observed.core} reconciles this object"
        )
    status = SetStatusBuilder(resource_set, now)
    status.set_paused(cluster_api.is_paused(resource_set))
    if cluster_api.is_paused(resource_set):
        return status.decision(message="paused")
    if deleting(resource_set):
        effects = (*_leave_bindings(observed, resource_set), *_release(observed, resource_set, observed.sources))
        return Decision(
            (*effects, RemoveFinalizer(CLUSTER_RESOURCE_SET, resource_set, FINALIZER)),
            message="the objects stay in the workload clusters",
        )
    return _apply(observed, resource_set, status, results)


def _leave_bindings(observed: Observed, resource_set: Object) -> Iterator[Effect]:
    """Yields the writes that remove the set from all bindings, even for Clusters that are deselected."""
    for binding in observed.bindings.values():
        if effect := leave(binding, resource_set):
            yield effect


def _release(observed: Observed, resource_set: Object, refs: Container[SourceRef]) -> Iterator[Effect]:
    """Yields the patches that end the ownership of sources, so that they are not collected with the set."""
    for ref, source in observed.sources.items():
        owners = without_owner(source, resource_set) if source is not None and ref in refs else None
        if source is not None and owners is not None:
            yield Patch(_kind(ref), source, {"metadata": {"ownerReferences": owners}})


def _apply(observed: Observed, resource_set: Object, status: SetStatusBuilder, results: Results | None) -> Decision:
    sources, problems = _readable(observed, resource_set)
    if observed.selector_problem:
        problems.append(Problem("selector", observed.selector_problem))
    once = (dig(resource_set, "spec.strategy") or "ApplyOnce") == "ApplyOnce"
    work: list[Work] = []
    for cluster in observed.clusters:
        one = _work(observed, resource_set, cluster, sources, once=once)
        if obstacle := _obstacle(cluster) if one else "":
            problems.append(Problem("wait", obstacle, key_of(cluster).name))
        elif one:
            work.append(one)
    effects: list[Effect] = [*ensure_finalizer(CLUSTER_RESOURCE_SET, resource_set, FINALIZER)]
    effects += _note_owned(observed, resource_set)
    effects += _own(observed, resource_set)
    effects += _release(observed, resource_set, set(observed.sources).difference(source_refs(resource_set)))
    if work:
        effects.append(ApplySources(resource_set, tuple(work), once, status.now))
    for outcome in results.of(ApplySources) if results else ():
        for name, applied in outcome.items():
            if not applied.tried:
                problems.append(Problem("wait", "not tried yet", name))
            kind: ProblemKind = "object" if applied.is_connected else "client"
            problems += [Problem(kind, text, name) for text in applied.problems]
    status.set_applied(problems, len(observed.clusters))
    return status.decision(*effects, requeue_after=_retry(problems), message=status.message, **status.generations())


def _retry(problems: list[Problem]) -> float | None:
    """Returns the seconds until the next attempt; None if everything is applied."""
    if any(one.kind in ("wait", "client") for one in problems):
        return WAIT_RETRY
    return FAILED_RETRY if problems else None


def _readable(observed: Observed, resource_set: Object) -> tuple[list[Source], list[Problem]]:
    """Returns the sources that can be applied, and the problems of the others, in the order of the spec."""
    sources: list[Source] = []
    problems: list[Problem] = []
    for ref in source_refs(resource_set) if observed.clusters else ():
        obj = observed.sources.get(ref)
        if obj is None:
            problems.append(Problem("missing", f"{ref} does not exist"))
        elif has_wrong_type(ref, obj):
            problems.append(Problem("type", f"{ref} does not have the type {SOURCE_TYPE}"))
        else:
            try:
                sources.append(Source.of(ref, obj))
            except SourceError as error:
                problems.append(Problem("missing", f"{ref}: {error}"))
    return sources, problems


def _work(
    observed: Observed, resource_set: Object, cluster: Object, sources: list[Source], *, once: bool
) -> Work | None:
    """Returns what is to be done for a Cluster; None if its binding shows that nothing is."""
    binding = observed.bindings.get(key_of(cluster).name)
    records = recorded_sources(binding_entry(binding, key_of(resource_set).name))
    due = tuple(source for source in sources if _is_due(source, records.get(source.ref), once=once))
    former = tuple(records.keys() - set(source_refs(resource_set)))
    return None if is_recorded(binding, resource_set) and not due and not former else Work(cluster, due, former)


def _is_due(source: Source, record: Object | None, *, once: bool) -> bool:
    """Returns whether a source is to be applied: until it was once, or, without `once`, until its content was."""
    if record is None or record.get("applied") is not True:
        return True
    return not once and record.get("hash") != source.hash


def _obstacle(cluster: Object) -> str:
    """Returns why nothing can be applied to a Cluster now; empty if it can."""
    if cluster_api.is_paused(cluster):
        return "the Cluster is paused"
    return (
        "" if cluster_api.control_plane_initialized(cluster) else "the control plane of the Cluster is not initialized"
    )


def _note_owned(observed: Observed, resource_set: Object) -> Iterator[Effect]:
    """Yields the patch that lists the owned sources before the set owns them.

    Bindings record only what was applied. With the list, the ownership ends even where nothing was applied.
    """
    wanted = dict(_own_sources(observed, resource_set))
    owned = [ref for ref, one in observed.sources.items() if one and without_owner(one, resource_set) is not None]
    listed = sorted({*wanted, *owned})
    if listed != sorted(owned_sources(resource_set)):
        text = " ".join("/".join(ref) for ref in listed)
        yield Patch(CLUSTER_RESOURCE_SET, resource_set, {"metadata": {"annotations": {OWNED_SOURCES: text or None}}})


def _own_sources(observed: Observed, resource_set: Object) -> Iterator[tuple[SourceRef, Object]]:
    """Yields the sources that the set is to own."""
    for ref in source_refs(resource_set):
        source = observed.sources.get(ref)
        if source is not None and not has_wrong_type(ref, source):
            yield ref, source


def _own(observed: Observed, resource_set: Object) -> Iterator[Effect]:
    """Yields the patches that make the set an owner of its sources."""
    for ref, source in _own_sources(observed, resource_set):
        owners = with_owner(source, owner_reference(resource_set))
        if owners is not None:
            yield OwnSource(_kind(ref), source, {"metadata": {"ownerReferences": owners}})


def _kind(ref: SourceRef) -> Resource:
    return SECRET if ref.kind == SECRET.kind else CONFIG_MAP
