"""What follows for one ClusterStack: which releases to have, and what to say about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from shared.api import cluster as contract
from shared.api.conditions import get_condition, is_true
from shared.api.resources import CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.clients import Clients
from shared.effects import Create, Delete, Effect, RemoveFinalizer, Results, ensure_finalizer
from shared.kube import (
    ApiError,
    Conflict,
    Key,
    NotFound,
    Object,
    Unavailable,
    deleting,
    dig,
    has_finalizer,
    key_of,
    owner_reference,
)
from shared.releases import usage
from shared.releases.naming import ReleaseName
from shared.runtime import Decision, Notice
from shared.runtime.verdict import PAUSED, Verdict

from .observe import Observed, Refusal, usable
from .provider import Blueprint, blueprint
from .selection import explicit, in_order, newest, subscribes

FINALIZER = "clusterstack.clusterstack.x-k8s.io"
"""Keeps the ClusterStack until its releases are gone, which may wait for the Clusters that use them."""

CLIENT, SYNCED = "AssetsClientAPIAvailable", "ReleasesSynced"
PROVIDER, RELEASES = "ProviderClusterStackReleasesSynced", "ClusterStackReleasesSynced"
AVAILABLE = "ClusterStackReleaseAvailable"


@dataclass(frozen=True)
class Attempt:
    """One of several writes that do not need each other: a refusal is its result, so that the others go on."""

    effect: Effect
    condition: str

    def execute(self, clients: Clients) -> Any:
        try:
            return self.effect.execute(clients)
        except (Unavailable, Conflict, NotFound):
            raise  # a retry may mend it
        except ApiError as error:
            return Refusal(self.condition, str(error))


# Seconds until the next look.
RETRY = 60.0
DELETION_RETRY = 20.0


def decide(observed: Observed, now: datetime) -> Decision:
    stack = observed.stack
    if stack is None:
        return Decision(message="the ClusterStack is gone")
    verdict = Verdict(stack, now)
    if contract.is_paused(stack):
        return Decision(status=verdict.paused(), message="paused")
    verdict.drop(PAUSED)
    if deleting(stack):
        return _let_go(verdict, observed)
    _judge_source(verdict, observed)
    plan = blueprint(observed.template, stack)
    _judge_provider(verdict, observed, plan)
    _judge_releases(verdict, observed)
    create, keep, delete = _sorted_out(observed)
    if not isinstance(plan, Blueprint) and dig(stack, "spec.noProvider") is not True:
        create = []
    _judge_availability(verdict, keep)
    effects: list[Effect] = [*ensure_finalizer(CLUSTER_STACK, stack, FINALIZER)]
    effects += [Delete(CLUSTER_STACK_RELEASE, release) for release in delete]
    effects += _create(stack, create, plan)
    effects += _update(stack, keep, plan)
    created = (Notice("ClusterStackReleaseCreated", f"release {tag} is made available") for tag in create)
    deleted = (Notice("ClusterStackReleaseDeleted", f"release {_tag(release)} is not used") for release in delete)
    present = {_tag(release): release for release in keep}
    summary = [_summary(tag, present.get(tag)) for tag in in_order([*create, *present])]
    return Decision(
        effects=tuple(effects),
        status=verdict.status(summary=summary, **_usable(keep)),
        notices=(*verdict.notices, *created, *deleted),
        requeue=_next_look(verdict, observed),
        message=f"{len(create)} releases made, {len(delete)} deleted, {len(keep)} kept",
    )


# -- what is wanted --------------------------------------------------------------------------------------------


def _sorted_out(observed: Observed) -> tuple[list[str], list[Object], list[Object]]:
    """The tags to create, the releases to keep, and those to delete."""
    present = _by_tag(observed)
    namespace = key_of(observed.stack or {}).namespace
    unused = {tag for tag in observed.selection.superfluous if Key(namespace, tag) not in observed.users}
    delete = [present[tag] for tag in observed.selection.superfluous if tag in unused and not deleting(present[tag])]
    keep = [release for tag, release in present.items() if tag not in unused or deleting(release)]
    return [tag for tag in observed.selection.wanted if tag not in present], keep, delete


def _by_tag(observed: Observed) -> dict[str, Object]:
    """What is no release's name was not made here, and is left alone."""
    return {_tag(release): release for release in observed.releases if ReleaseName.from_class_name(_tag(release))}


def _tag(release: Object) -> str:
    return key_of(release).name


def _create(stack: Object, tags: list[str], plan: Blueprint | str) -> list[Effect]:
    effects: list[Effect] = []
    for tag in tags:
        key = Key(key_of(stack).namespace, tag)
        release: Object = {
            "apiVersion": CLUSTER_STACK_RELEASE.api_version,
            "kind": CLUSTER_STACK_RELEASE.kind,
            "metadata": {
                **key._asdict(),
                "ownerReferences": [owner_reference(stack)],
                # From the start: what it owns is never without somebody to clear it away.
                "finalizers": [usage.FINALIZER],
            },
            "spec": {"providerRef": plan.reference(key)} if isinstance(plan, Blueprint) else {},
        }
        effects.append(Attempt(Create(CLUSTER_STACK_RELEASE, release), RELEASES))
        if isinstance(plan, Blueprint):
            effects.append(Attempt(plan.clone(key, stack), PROVIDER))
    return effects


def _update(stack: Object, releases: list[Object], plan: Blueprint | str) -> list[Effect]:
    """The template may have changed, or an earlier attempt have ended half-way."""
    if not isinstance(plan, Blueprint):
        return []
    having = (release for release in releases if dig(release, "spec.providerRef.kind") == plan.kind)
    return [Attempt(plan.clone(key_of(release), stack), PROVIDER) for release in having if not deleting(release)]


# -- conditions ------------------------------------------------------------------------------------------------


def _judge_source(verdict: Verdict, observed: Observed) -> None:
    remote = observed.remote
    if remote.unusable:
        verdict.false(CLIENT, "FailedCreateAssetsClient", remote.unusable, "Error", tell="Warning")
    elif not subscribes(dig(verdict.obj, "spec", {})):
        verdict.drop(CLIENT, SYNCED)
    elif remote.failure:
        verdict.true(CLIENT)
        verdict.false(SYNCED, "FailedToSync", remote.failure, "Warning", tell="Warning")
    else:
        verdict.true(CLIENT)
        verdict.true(SYNCED)


def _judge_provider(verdict: Verdict, observed: Observed, plan: Blueprint | str) -> None:
    refused = _refused(observed, PROVIDER)
    if dig(verdict.obj, "spec.noProvider") is True:
        verdict.drop(PROVIDER)
    elif refused:
        verdict.false(PROVIDER, "FailedToCreateOrUpdate", "; ".join(refused), "Warning", tell="Warning")
    elif isinstance(plan, Blueprint):
        verdict.true(PROVIDER)
    elif observed.template.state == "failed":
        verdict.false(PROVIDER, "FailedToCreateOrUpdate", plan, "Warning", tell="Warning")
    else:
        verdict.false(PROVIDER, "ProviderTemplateNotFound", plan, "Error", tell="Warning")


def _judge_releases(verdict: Verdict, observed: Observed) -> None:
    problems = [f"spec.versions: {problem}" for problem in explicit(dig(verdict.obj, "spec", {}))[1]]
    problems += _refused(observed, RELEASES)
    if problems:
        verdict.false(RELEASES, "FailedToCreateOrUpdate", "; ".join(problems), "Warning", tell="Warning")
    else:
        verdict.true(RELEASES)


def _refused(observed: Observed, condition: str) -> list[str]:
    return [refusal.message for refusal in observed.refusals if refusal.condition == condition]


def _judge_availability(verdict: Verdict, releases: list[Object]) -> None:
    if any(map(usable, releases)):
        verdict.true(AVAILABLE)
    else:
        verdict.false(AVAILABLE, "NoReleaseReady", "no release is ready yet; status.summary says how far each is")


def _next_look(verdict: Verdict, observed: Observed) -> float:
    """Sooner than at the next poll where something outside is amiss."""
    failed = any(
        (get_condition(verdict.conditions, condition) or {}).get("status") == "False"
        for condition in (CLIENT, SYNCED, PROVIDER)
    )
    return min(RETRY, observed.poll) if failed or observed.refusals else observed.poll


# -- status ----------------------------------------------------------------------------------------------------


def _usable(releases: list[Object]) -> Object:
    """The texts about releases that are ready."""
    kubernetes = {
        _tag(release): dig(release, "status.kubernetesVersion", "-") for release in releases if usable(release)
    }
    names = [ReleaseName.parse(tag) for tag in in_order(kubernetes)]
    latest = ", ".join(f"{name.class_name} | {kubernetes[name.tag]}" for name in newest(names))
    return {"latestRelease": latest, "usableVersions": ", ".join(name.version.dotted for name in names)}


def _summary(tag: str, release: Object | None) -> Object:
    """One line about a release, under its version."""
    conditions = dig(release, "status.conditions", [])
    ready = dig(release, "status.ready") is True
    line: Object = {"name": ReleaseName.parse(tag).version.tag, "ready": ready, "phase": _phase(ready, conditions)}
    told = get_condition(conditions, "Ready") or {}
    message = told.get("message") if told.get("status") == "False" else ""
    if release is not None and deleting(release):
        message = f"being deleted: {message}" if message else "being deleted"
    return {**line, "message": message} if message else line


def _phase(ready: bool, conditions: list[Object]) -> str:
    if ready:
        return "done"
    if is_true(conditions, "ProviderClusterStackReleaseReady"):
        return "applying objects"
    if is_true(conditions, "ClusterStackReleaseDownloaded"):
        return "provider-specific work"
    return "downloading release assets" if get_condition(conditions, "ClusterStackReleaseDownloaded") else ""


# -- deletion --------------------------------------------------------------------------------------------------


def _let_go(verdict: Verdict, observed: Observed) -> Decision:
    """The releases first. Each waits by itself for the Clusters that use it, and says so."""
    stack = observed.stack or {}
    if not has_finalizer(stack, FINALIZER):
        return Decision(message="being deleted")
    if not observed.releases:
        return Decision(effects=(RemoveFinalizer(CLUSTER_STACK, stack, FINALIZER),), message="let go")
    lines = [f"{key_of(release).name}{_why(release)}" for release in observed.releases]
    verdict.false(RELEASES, "Deleting", f"waiting for releases to go: {'; '.join(lines)}")
    return Decision(
        effects=tuple(Delete(CLUSTER_STACK_RELEASE, r) for r in observed.releases if not deleting(r)),
        status=verdict.status(),
        requeue=DELETION_RETRY,
        message="waiting for releases to go",
    )


def _why(release: Object) -> str:
    held = get_condition(dig(release, "status.conditions", []), "HelmChartDeleted") or {}
    return f" ({held['message']})" if held.get("message") else ""


# -- report ----------------------------------------------------------------------------------------------------


def report(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision:
    """Once more, knowing what was refused."""
    refusals = tuple(value for value in results.values if isinstance(value, Refusal))
    if not refusals or results.error is not None:
        return decision
    told = decide(replace(observed, refusals=refusals), now)
    notices = tuple(notice for notice in told.notices if notice.type == "Warning")
    return replace(told, notices=notices, message="; ".join(refusal.message for refusal in refusals))
