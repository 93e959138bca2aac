"""What follows for one ClusterStackRelease: guards in the order of what must be there, then the rollout.

Once ready it stays so: what fails later, such as the repair of an object, is told by the conditions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from shared import charts
from shared.api import cluster as contract
from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.clients import Clients
from shared.effects import Delete, Effect, RemoveFinalizer, Results, ensure_finalizer, write_ahead
from shared.kube import Object, deleting, dig, has_finalizer, key_of, owned_by
from shared.releases.missing import CONDITION as DOWNLOADED
from shared.releases.missing import MissingAssets
from shared.releases.naming import ReleaseName
from shared.releases.usage import FINALIZER
from shared.runtime import Decision, Notice
from shared.runtime.verdict import PAUSED, Verdict
from shared.workload import inventory
from shared.workload.desired import MANAGEMENT, UnknownKinds, defined_by, desired
from shared.workload.outcome import Incomplete, Outcome
from shared.workload.policy import Policy
from shared.workload.rollout import Rollout

from .observe import Assets, Management, Observed, provided

POLICY = Policy(wait=False)
"""What a class consists of is only used later: there is nothing to wait for."""
PROVIDER = "ProviderClusterStackReleaseReady"
APPLIED, DELETED = "HelmChartApplied", "HelmChartDeleted"

# Seconds until the next look.
ASSETS_RETRY = 10.0
PROVIDER_RETRY = 10.0
PARTIAL_RETRY = 20.0
IN_USE_RETRY = 60.0
BROKEN_RETRY = 60.0
"""For what only a person can mend: slow, but never given up."""


@dataclass(frozen=True)
class Rediscover:
    """Has the kinds asked for again: one that was unknown may have come."""

    def execute(self, clients: Clients) -> None:
        clients.discovery.forget()


def decide(observed: Observed, now: datetime) -> Decision:
    release = observed.release
    if release is None:
        return Decision(message="the ClusterStackRelease is gone")
    verdict = Verdict(release, now)
    if contract.is_paused(release):
        return Decision(status=verdict.paused(), message="paused")
    verdict.drop(PAUSED)
    if deleting(release):
        return _delete(verdict, observed)
    if observed.name is None:
        message = f"{key_of(release).name!r} is no name of a release in its form with dashes"
        return _broken(verdict, DOWNLOADED, "IssueWithReleaseAssets", message, requeue=None)
    if not isinstance(observed.assets, Assets):
        return _not_downloaded(verdict, observed.assets or MissingAssets(observed.name.tag))
    verdict.true(DOWNLOADED)
    if observed.management is None or not provided(observed.provider):
        return _not_provided(verdict, observed, observed.assets)
    verdict.true(PROVIDER)
    return _roll_out(verdict, observed, observed.assets, observed.name, observed.management)


# -- guards ----------------------------------------------------------------------------------------------------


def _not_downloaded(verdict: Verdict, lost: MissingAssets) -> Decision:
    if lost.failure:
        decision = _broken(verdict, DOWNLOADED, lost.reason, lost.message)
    else:
        verdict.false(DOWNLOADED, lost.reason, lost.message)
        decision = Decision(_finalizer(verdict), verdict.status(), requeue=ASSETS_RETRY, message=lost.message)
    place = key_of(verdict.obj).namespace
    wish = lost.wish(verdict.obj, place, verdict.now, source="/cluster_stack_release", every=BROKEN_RETRY)
    return replace(decision, reply=wish)


def _not_provided(verdict: Verdict, observed: Observed, assets: Assets) -> Decision:
    provider = observed.provider
    what = f"{provider.kind} {dig(verdict.obj, 'spec.providerRef.name', '')}"
    if provider.state == "failed":
        message = f"{what}: {provider.error}"
    elif provider.state == "absent":
        message = f"{what} does not exist yet"
    else:
        message = f"{what} is not ready yet"
    verdict.false(PROVIDER, "ProcessOngoing", message)
    return Decision(
        effects=_finalizer(verdict),
        status=verdict.status(kubernetesVersion=assets.kubernetes),
        requeue=PROVIDER_RETRY,
        message=message,
    )


def _broken(
    verdict: Verdict,
    condition: str,
    reason: str,
    message: str,
    *,
    requeue: float | None = BROKEN_RETRY,
    facts: Object | None = None,
) -> Decision:
    verdict.false(condition, reason, message, "Error", tell="Warning")
    return Decision(
        effects=_finalizer(verdict),
        status=verdict.status(**facts or {}),
        notices=tuple(verdict.notices),
        requeue=requeue,
        message=message,
    )


def _finalizer(verdict: Verdict) -> tuple[Effect, ...]:
    return ensure_finalizer(CLUSTER_STACK_RELEASE, verdict.obj, FINALIZER)


# -- rollout ---------------------------------------------------------------------------------------------------


def _roll_out(
    verdict: Verdict, observed: Observed, assets: Assets, name: ReleaseName, management: Management
) -> Decision:
    facts: Object = {"kubernetesVersion": assets.kubernetes}
    try:
        objects = _render(assets, name, management, key_of(verdict.obj).namespace)
    except charts.ChartError as error:
        return _broken(verdict, APPLIED, "FailedToApplyObjects", str(error), facts=facts)
    except UnknownKinds as error:
        decision = _broken(verdict, APPLIED, "FailedToApplyObjects", str(error), requeue=PARTIAL_RETRY, facts=facts)
        return replace(decision, effects=(*decision.effects, Rediscover()))
    known = inventory.load(dig(verdict.obj, "status.resources"))
    plan = inventory.plan(objects, known, resumed=False)
    plan = replace(plan, prune=tuple(entry for entry in plan.prune if entry.identity not in observed.claimed))
    effects: list[Effect] = list(_finalizer(verdict))
    if {step.entry.identity for step in plan.steps} - {entry.identity for entry in known}:
        # Before anything is applied, so that a crash in between leaves nothing behind that nobody knows of.
        verdict.false(APPLIED, "ObjectsApplyingOngoing", f"applying {len(objects)} objects of {name}", "Warning")
        status = verdict.status(resources=inventory.dump(inventory.intent(plan)), **facts)
        effects += write_ahead(CLUSTER_STACK_RELEASE, verdict.obj, status)
    resources = {**management.reached.served, **defined_by(objects)}
    effects.append(Rollout(management.reached.workload, plan, resources, POLICY))
    return Decision(tuple(effects))


def _render(assets: Assets, name: ReleaseName, management: Management, namespace: str) -> list[Object]:
    """The class chart's objects. Raises ChartError, UnknownKinds."""
    served = management.reached.served
    manifests = charts.render(
        assets.chart,
        {},
        name=assets.file,
        release_name=name.stack,
        namespace=namespace,
        kube_version=management.version,
        api_versions=sorted({text for version, kind in served for text in (version, f"{version}/{kind}")}),
    )
    parsed = charts.parse(manifests, default_namespace=namespace)
    objects = desired(parsed, served, default_namespace=namespace, where=MANAGEMENT)
    if not objects:
        raise charts.ChartError(f"{assets.file}: the chart renders no objects, a ClusterClass is needed")
    for obj in objects:
        if (elsewhere := dig(obj, "metadata.namespace", namespace)) != namespace:
            # A release is not to reach farther than those who may ask for it.
            who = charts.identity(obj)
            raise charts.ChartError(f"{assets.file}: {who} is meant for {elsewhere}, only {namespace} is allowed")
    return objects


# -- deletion --------------------------------------------------------------------------------------------------


def _delete(verdict: Verdict, observed: Observed) -> Decision:
    """Not while a Cluster uses the class; then its objects, the provider's object, and the finalizer last."""
    release = observed.release or {}
    if not has_finalizer(release, FINALIZER) or observed.management is None:
        return Decision(message="being deleted")
    if observed.users:
        names = ", ".join(str(user) for user in observed.users[:5])
        more = f" and {len(observed.users) - 5} more" if len(observed.users) > 5 else ""
        message = f"its ClusterClass is used by Cluster {names}{more}"
        verdict.false(DELETED, "ClusterClassInUse", message)
        return Decision(status=verdict.status(), requeue=IN_USE_RETRY, message=message)
    effects: list[Effect] = []
    known = inventory.load(dig(release, "status.resources"))
    prune = tuple(entry for entry in known if entry.identity not in observed.claimed)
    if prune:
        effects.append(Rollout(observed.management.reached.workload, inventory.Plan((), prune), {}, POLICY))
    provider = observed.provider
    if provider.state in ("unreferenced", "absent"):
        effects.append(RemoveFinalizer(CLUSTER_STACK_RELEASE, release, FINALIZER))
        return Decision(tuple(effects), message="let go")
    what = f"{provider.kind} {dig(release, 'spec.providerRef.name', '')}"
    if provider.object is None or provider.resource is None:
        message = f"cannot tell whether {what} is gone: {provider.error}"
    elif not owned_by(provider.object, release):
        effects.append(RemoveFinalizer(CLUSTER_STACK_RELEASE, release, FINALIZER))
        return Decision(tuple(effects), message="let go")
    else:
        message = f"waiting for {what} to be deleted"
        if not deleting(provider.object):
            effects.append(Delete(provider.resource, provider.object))
    verdict.false(PROVIDER, "Deleting", message)
    return Decision(tuple(effects), verdict.status(), requeue=PROVIDER_RETRY, message=message)


# -- report ----------------------------------------------------------------------------------------------------


def report(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision:
    """The status after a rollout or a removal; any other decision stands as it was made."""
    if observed.release is None:
        return decision
    verdict = Verdict(observed.release, now)
    outcome = next((value for value in results.values if isinstance(value, Outcome)), None)
    if isinstance(results.error, Incomplete):
        incomplete, results.error = results.error, None
        return _incomplete(decision, verdict, incomplete)
    if outcome is None or results.error is not None:
        return decision
    if deleting(observed.release):
        status = (decision.status or {}) | {"resources": inventory.dump(outcome.entries)}
        return replace(decision, status=status)
    return _applied(decision, verdict, observed, outcome)


def _applied(decision: Decision, verdict: Verdict, observed: Observed, outcome: Outcome) -> Decision:
    for condition in (DOWNLOADED, PROVIDER, APPLIED):
        verdict.true(condition)
    verdict.drop(PAUSED)
    message = f"{observed.name}: {len(outcome.written)} objects written, {len(outcome.pruned)} pruned"
    first = dig(verdict.obj, "status.ready") is not True
    return replace(
        decision,
        status=verdict.status(
            ready=True,
            resources=inventory.dump(outcome.entries),
            kubernetesVersion=observed.assets.kubernetes if isinstance(observed.assets, Assets) else None,
        ),
        notices=(Notice("ClusterStackReleaseReady", message),) if first else (),
        message=message,
    )


def _incomplete(decision: Decision, verdict: Verdict, incomplete: Incomplete) -> Decision:
    message = str(incomplete)
    if deleting(verdict.obj):
        condition, reason = DELETED, "FailedToDeleteObjects"
    else:
        condition, reason = APPLIED, "ObjectsApplyingOngoing"
        verdict.true(DOWNLOADED)
        verdict.true(PROVIDER)
    verdict.false(condition, reason, message, "Warning", tell="Warning")
    return replace(
        decision,
        status=verdict.status(resources=inventory.dump(incomplete.outcome.entries)),
        notices=tuple(verdict.notices),
        requeue=PARTIAL_RETRY,
        message=message,
    )
