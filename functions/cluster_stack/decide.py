"""Decides about one ClusterStack: which releases to create, keep and delete, and what to report about them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.api.conditions import abridged, counted, rfc3339
from shared.api.resources import CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.effects import Delete, Effect, Results, ensure_finalizer
from shared.kube import Key, Object, deleting, dig, key_of
from shared.releases.naming import ReleaseName
from shared.releases.source_resolution import scope_of
from shared.runtime import Decision
from shared.runtime.status import PAUSED

from .conditions import StackStatusBuilder, has_external_failure, set_conditions
from .deletion import FINALIZER, reconcile_deletion
from .observe import Observed, Rejection
from .provider import ProviderTemplate, read_template
from .selection import MAX_RELEASES, by_priority, sort_tags
from .summary import summary, usable_releases_status
from .writes import Attempt, create_releases, update_provider_objects

RETRY = 60.0
"""Seconds until the next reconciliation if the source, the provider or a write fails."""


def decide(observed: Observed, now: datetime, results: Results | None = None) -> Decision:
    """Decides which releases to create, update and delete, and which conditions to set, also about rejected writes."""
    attempts = results.of(Attempt) if results else []
    rejections = tuple(found for found in attempts if isinstance(found, Rejection))
    decision = _decide(replace(observed, rejections=rejections), now)
    if not rejections:
        return decision
    warnings = tuple(event for event in decision.kubernetes_events if event.type == "Warning")
    message = abridged([rejection.message for rejection in rejections])
    return replace(decision, kubernetes_events=warnings, message=message)


def _decide(observed: Observed, now: datetime) -> Decision:
    stack = observed.stack
    if stack is None:
        return Decision(message="the ClusterStack does not exist")
    builder = StackStatusBuilder(stack, now)
    if cluster_api.is_paused(stack):
        return Decision(status=builder.paused_status(), message="paused")
    if deleting(stack):
        builder.remove(PAUSED)
        return reconcile_deletion(builder, observed)
    template = read_template(observed.template, stack)
    create, keep, delete = _partition_releases(observed)
    wanted, create = len(create), create[: max(0, MAX_RELEASES - len(keep))]
    left_out = observed.selection.left_out + wanted - len(create)
    if not isinstance(template, ProviderTemplate) and dig(stack, "spec.noProvider") is not True:
        create = []
    set_conditions(builder, observed, template, keep, left_out)
    effects: list[Effect] = [*ensure_finalizer(CLUSTER_STACK, stack, FINALIZER)]
    effects += [Delete(CLUSTER_STACK_RELEASE, release) for release in delete]
    effects += create_releases(stack, create, template)
    effects += update_provider_objects(stack, keep, template)
    for tag in create:
        builder.add_event("ClusterStackReleaseCreated", f"ClusterStackRelease {tag} is created")
    for tag in map(_tag, delete):
        message = f"ClusterStackRelease {tag} is deleted, because it is obsolete and no Cluster uses it"
        builder.add_event("ClusterStackReleaseDeleted", message)
    present = {_tag(release): release for release in keep}
    return builder.decision(
        *effects,
        requeue_after=_requeue_after(builder, observed),
        message=f"{counted(len(create), 'release')} created, {len(delete)} deleted, {len(keep)} kept",
        observedGeneration=dig(stack, "metadata.generation"),
        summary=summary(sort_tags([*create, *present]), present),
        held=_dump_held(observed),
        **usable_releases_status(keep),
    )


def _partition_releases(observed: Observed) -> tuple[list[str], list[Object], list[Object]]:
    """Returns the tags to create, by priority, the releases to keep, and those to delete.

    Many are deleted in batches, because each deletion is an event that starts the function again.
    """
    present = _by_tag(observed)
    namespace = key_of(observed.stack or {}).namespace
    obsolete = observed.selection.obsolete if not observed.failure else ()
    unused = {tag for tag in obsolete if Key(namespace, tag) not in observed.users}
    delete = [present[tag] for tag in observed.selection.obsolete if tag in unused and not deleting(present[tag])]
    keep = [release for tag, release in present.items() if tag not in unused or deleting(release)]
    missing = [tag for tag in observed.selection.desired if tag not in present]
    return by_priority(dig(observed.stack, "spec", {}), missing), keep, delete[:MAX_RELEASES]


def _by_tag(observed: Observed) -> dict[str, Object]:
    """Returns the releases by tag, without objects whose names are not tags: other clients created those."""
    return {_tag(release): release for release in observed.releases if ReleaseName.from_class_name(_tag(release))}


def _tag(release: Object) -> str:
    return key_of(release).name


def _requeue_after(builder: StackStatusBuilder, observed: Observed) -> float:
    """Returns the seconds until the next poll, sooner after a failure, but not before the source allows a request."""
    seconds = min(RETRY, observed.poll) if has_external_failure(builder) or observed.rejections else observed.poll
    blocked = observed.listing.blocked_until
    return max(seconds, (blocked - builder.now).total_seconds()) if blocked else seconds


def _dump_held(observed: Observed) -> Object | None:
    """Returns `status.held`: until the time in it, later reconciliations send no request to the same sources."""
    listing = observed.listing
    if listing.blocked_until is None:
        return None
    return {
        "until": rfc3339(listing.blocked_until),
        "sources": scope_of(observed.stack or {}),
        "message": listing.failure,
    }
