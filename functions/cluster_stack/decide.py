"""What follows for one ClusterStack: which releases to have, and what to say about them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.api.conditions import rfc3339
from shared.api.resources import CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.effects import Delete, Effect, Results, ensure_finalizer
from shared.kube import Key, Object, deleting, dig, key_of
from shared.releases.naming import ReleaseName
from shared.releases.origin import scope_of
from shared.runtime import Decision, KubernetesEvent
from shared.runtime.status import PAUSED, V1Beta1StatusBuilder

from .conditions import judge_availability, judge_provider, judge_releases, judge_source, source_fails
from .deletion import FINALIZER, let_go
from .observe import Observed, Refusal
from .provider import Blueprint, blueprint
from .selection import in_order
from .summary import summary_line, usable_texts
from .writes import creations, updates

RETRY = 60.0
"""Seconds until the next look where something outside is amiss."""


def decide(observed: Observed, now: datetime) -> Decision:
    stack = observed.stack
    if stack is None:
        return Decision(message="the ClusterStack is gone")
    builder = V1Beta1StatusBuilder(stack, now)
    if cluster_api.is_paused(stack):
        return Decision(status=builder.paused_status(), message="paused")
    builder.remove(PAUSED)
    if deleting(stack):
        return let_go(builder, observed)
    judge_source(builder, observed)
    plan = blueprint(observed.template, stack)
    judge_provider(builder, observed, plan)
    judge_releases(builder, observed)
    create, keep, delete = _sorted_out(observed)
    if not isinstance(plan, Blueprint) and dig(stack, "spec.noProvider") is not True:
        create = []
    judge_availability(builder, keep)
    effects: list[Effect] = [*ensure_finalizer(CLUSTER_STACK, stack, FINALIZER)]
    effects += [Delete(CLUSTER_STACK_RELEASE, release) for release in delete]
    effects += creations(stack, create, plan)
    effects += updates(stack, keep, plan)
    created = (KubernetesEvent("ClusterStackReleaseCreated", f"release {tag} is made available") for tag in create)
    deleted = (
        KubernetesEvent("ClusterStackReleaseDeleted", f"release {_tag(release)} is not used") for release in delete
    )
    present = {_tag(release): release for release in keep}
    summary = [summary_line(tag, present.get(tag)) for tag in in_order([*create, *present])]
    return Decision(
        effects=tuple(effects),
        status=builder.status(summary=summary, held=_held(observed), **usable_texts(keep)),
        kubernetes_events=(*builder.kubernetes_events, *created, *deleted),
        requeue_after=_next_look(builder, observed),
        message=f"{len(create)} releases made, {len(delete)} deleted, {len(keep)} kept",
    )


def _sorted_out(observed: Observed) -> tuple[list[str], list[Object], list[Object]]:
    """The tags to create, the releases to keep, and those to delete."""
    present = _by_tag(observed)
    namespace = key_of(observed.stack or {}).namespace
    superfluous = observed.selection.superfluous if not observed.failure else ()
    unused = {tag for tag in superfluous if Key(namespace, tag) not in observed.users}
    delete = [present[tag] for tag in observed.selection.superfluous if tag in unused and not deleting(present[tag])]
    keep = [release for tag, release in present.items() if tag not in unused or deleting(release)]
    return [tag for tag in observed.selection.wanted if tag not in present], keep, delete


def _by_tag(observed: Observed) -> dict[str, Object]:
    """What is no release's name was not made here, and is left alone."""
    return {_tag(release): release for release in observed.releases if ReleaseName.from_class_name(_tag(release))}


def _tag(release: Object) -> str:
    return key_of(release).name


def _next_look(builder: V1Beta1StatusBuilder, observed: Observed) -> float:
    """Sooner than at the next poll where something outside is amiss, but not before the source wants to be asked."""
    seconds = min(RETRY, observed.poll) if source_fails(builder) or observed.refusals else observed.poll
    held = observed.remote.held_until
    return max(seconds, (held - builder.now).total_seconds()) if held else seconds


def _held(observed: Observed) -> Object | None:
    """For whatever event comes meanwhile; other sources are asked at once."""
    remote = observed.remote
    if remote.held_until is None:
        return None
    return {
        "until": rfc3339(remote.held_until),
        "sources": scope_of(observed.stack or {}),
        "message": remote.failure,
    }


def report(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision:
    """Once more, knowing what was refused."""
    refusals = tuple(value for value in results.values if isinstance(value, Refusal))
    if not refusals or results.error is not None:
        return decision
    told = decide(replace(observed, refusals=refusals), now)
    kubernetes_events = tuple(event for event in told.kubernetes_events if event.type == "Warning")
    return replace(
        told, kubernetes_events=kubernetes_events, message="; ".join(refusal.message for refusal in refusals)
    )
