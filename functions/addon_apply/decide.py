"""What follows for one ClusterAddon: guards in the order of what must be there, then the way through the stages.

Every wait has a condition that says what is waited for, and an interval. Conditions, reasons and severities are those
that users of cluster stacks know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from shared import charts
from shared.addons import content
from shared.addons.assets import Assets
from shared.addons.content import Facts
from shared.api import cluster as contract
from shared.api.conditions import is_true
from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER_ADDON
from shared.cel import ExpressionError, NotYet, evaluate
from shared.clients import Clients, Found
from shared.effects import Delete, Effect, Patch, RemoveFinalizer, add_finalizer
from shared.event import Event
from shared.kube import Object, deleting, dig
from shared.releases import missing
from shared.releases.missing import MissingAssets
from shared.runtime import Decision, changes
from shared.runtime.verdict import Verdict
from shared.workload import inventory
from shared.workload.desired import UnknownKinds, defined_by, desired
from shared.workload.inventory import Entry, Plan
from shared.workload.live import look_again
from shared.workload.policy import Policy
from shared.workload.reach import Reached, Unreachable
from shared.workload.rollout import Rollout

from . import history
from .observe import Observed, is_anothers, progress, target, values_context
from .target import AFTER, BEFORE, DONE, WORKING, Position, Progress, Target, unchanged

STAGE_ANNOTATION = "ClusterAddonStage"
DEFAULT_NAMESPACE = "kube-system"

# Seconds until the next look.
CLUSTER_RETRY = 10.0
ASSETS_RETRY = 10.0
PARTIAL_RETRY = 20.0
CONDITION_RETRY = 20.0
READY_RETRY = 5.0
BROKEN_RETRY = 60.0
"""For what only a person can mend: slow, but never given up."""


@dataclass(frozen=True)
class Refresh:
    """Has the workload cluster's kinds asked for again: one that was unknown may have come."""

    reached: Reached

    def execute(self, _clients: Clients) -> None:
        self.reached.workload.discovery.forget()


@dataclass(frozen=True)
class LookAgain:
    """Returns these entries with what each is waiting for now."""

    reached: Reached
    entries: Sequence[Entry]

    def execute(self, _clients: Clients) -> list[Entry]:
        return [look_again(self.reached.workload, entry) if entry.waiting else entry for entry in self.entries]


def decide(observed: Observed, now: datetime) -> Decision:
    return replace(_decide(observed, now), context=_context(observed))


def _context(observed: Observed) -> dict[str, str]:
    """What the log tells beside the message."""
    context = {"cluster": str(dig(observed.addon, "spec.clusterRef.name", ""))}
    if observed.release is not None:
        context["release"] = observed.release.tag
    if isinstance(observed.assets, Assets) and observed.facts is not None and observed.assets.stages:
        current = progress(observed).current
        context |= {"stage": current.stage.name} if current else {}
    return context


def _decide(observed: Observed, now: datetime) -> Decision:
    addon, cluster = observed.addon, observed.cluster
    if addon is None:
        return Decision(message="the ClusterAddon is gone")
    if deleting(addon) or cluster is None or deleting(cluster):
        return _let_go(addon)
    if is_anothers(addon, cluster):
        # Made anew for the Cluster that has the name now, whose uid it then carries.
        return Decision((Delete(CLUSTER_ADDON, addon),), message="this addon is of an earlier Cluster of that name")
    verdict = Verdict(addon, now)
    if contract.is_paused(cluster):
        verdict.false("ClusterReady", "Paused", "The Cluster is paused: its addons are left as they are", tell="Normal")
        status = verdict.status(ready=dig(addon, "status.ready") is True)
        return Decision(status=status, notices=tuple(verdict.notices), message="paused")
    if not isinstance(observed.policy, Policy):
        verdict.false("ClusterAddonConfigValidated", "InvalidAnnotation", str(observed.policy), "Error", tell="Warning")
        return _waiting(verdict, BROKEN_RETRY, str(observed.policy))
    if observed.release is None:
        name = contract.class_name(cluster)
        verdict.false(missing.CONDITION, "NoClusterStack", f"class {name!r} names no cluster stack")
        return Decision(status=verdict.status(ready=False))
    if observed.settled:
        return Decision(_finalizer(addon), message="applied")
    if not isinstance(observed.reach, Reached):
        return _not_reached(verdict, observed.reach)
    verdict.true("ClusterReady")
    if observed.awaited:
        return Decision((*_finalizer(addon), LookAgain(observed.reach, observed.known)))
    if observed.rollback is not None:
        return _roll_back(verdict, observed, observed.reach, observed.rollback)
    if not isinstance(observed.assets, Assets):
        return _not_downloaded(verdict, cluster, observed.assets or MissingAssets(observed.release.tag))
    verdict.true(missing.CONDITION)
    return _bring_to(verdict, observed, observed.reach, observed.assets)


# -- guards ----------------------------------------------------------------------------------------------------


def _let_go(addon: Object) -> Decision:
    """Without its Cluster an addon has nothing to do: the objects go with the workload cluster."""
    if not deleting(addon) or ADDON_FINALIZER not in dig(addon, "metadata.finalizers", []):
        return Decision(message="the Cluster is going away")
    forget = (history.Forget(addon),) if dig(addon, "status.history") else ()
    return Decision(effects=(*forget, RemoveFinalizer(CLUSTER_ADDON, addon, ADDON_FINALIZER)), message="let go")


def _not_reached(verdict: Verdict, reach: Unreachable | None) -> Decision:
    problem = reach or Unreachable("the workload cluster was not looked at")
    lost = is_true(verdict.conditions, "ClusterReady")  # else it is how each cluster begins, and no news
    verdict.false(
        "ClusterReady", "ControlPlaneNotReady", problem.message, problem.severity, tell="Warning" if lost else ""
    )
    return _waiting(verdict, CLUSTER_RETRY, problem.message)


def _not_downloaded(verdict: Verdict, cluster: Object, lost: MissingAssets) -> Decision:
    if lost.failure:
        verdict.false(missing.CONDITION, lost.reason, lost.message, "Error", tell="Warning")
    else:
        verdict.false(missing.CONDITION, lost.reason, lost.message)
    place = contract.class_namespace(cluster)
    wanted = lost.wish(verdict.obj, place, verdict.now, source="/addon_apply", every=ASSETS_RETRY)
    return _waiting(verdict, ASSETS_RETRY, lost.message, reply=wanted)


def _finalizer(addon: Object) -> tuple[Effect, ...]:
    if ADDON_FINALIZER in dig(addon, "metadata.finalizers", []):
        return ()
    return (add_finalizer(CLUSTER_ADDON, addon, ADDON_FINALIZER),)


def _waiting(
    verdict: Verdict, seconds: float, message: str, *, reply: Event | None = None, **fields: object
) -> Decision:
    """To look again after so many seconds; `fields` go into the status."""
    return Decision(
        effects=_finalizer(verdict.obj),
        status=verdict.status(ready=False, **fields),
        notices=tuple(verdict.notices),
        requeue=seconds,
        reply=reply,
        message=message,
    )


# -- the way through the stages ----------------------------------------------------------------------------------


def _bring_to(verdict: Verdict, observed: Observed, reach: Reached, assets: Assets) -> Decision:
    goal = target(observed)
    resumed = dig(verdict.obj, "status.digest") == goal.digest
    if not resumed and unchanged(verdict.obj, goal):
        # The addons' own version is what decides: a new release with the same addons costs the cluster nothing.
        verdict.true("HelmChartApplied")
        effects = (*_finalizer(verdict.obj), *_advance(verdict.obj, goal))
        return Decision(effects, verdict.status(ready=True, digest=goal.digest), message="addons unchanged")
    if assets.problem:
        verdict.false(
            "ClusterAddonConfigValidated", "ParsingClusterAddonConfigFailed", assets.problem, "Error", tell="Warning"
        )
        return _waiting(verdict, BROKEN_RETRY, assets.problem)
    verdict.drop("ClusterAddonConfigValidated")
    broken = _unreadable(observed.control_plane) or _unreadable(observed.infrastructure)
    if broken:
        verdict.false("HelmChartTemplated", "TemplateNewClusterStackFailed", broken, "Error")
        return _waiting(verdict, CLUSTER_RETRY, broken)
    way = progress(observed)
    if way.current is not None:
        return _stage(verdict, observed, reach, assets, goal, way, way.current)
    return _finish(verdict, observed, reach, assets, goal, way)


def _unreadable(found: Found) -> str:
    """A referenced object that is not there would render as nothing, and prune what depends on it."""
    if found.state in ("absent", "failed"):
        return found.error or f"{found.kind} that the Cluster refers to does not exist"
    return ""


def _stage(
    verdict: Verdict, observed: Observed, reach: Reached, assets: Assets, goal: Target, way: Progress, at: Position
) -> Decision:
    """One step of one stage: a condition that is looked at, or its chart applied or deleted."""
    if at.condition is not None:
        obstacle = _obstacle(verdict, observed, at)
        if obstacle is not None:
            way = way.moved(AFTER if at.phase == AFTER else BEFORE, verdict.now)
            return _waiting(verdict, CONDITION_RETRY, obstacle, stages=way.dump(), digest=goal.digest)
    verdict.drop("EvaluatedCEL")
    if at.phase == AFTER:
        way = way.moved(DONE, verdict.now)
        status = verdict.status(ready=False, stages=way.dump())
        return Decision(status=status, proceed=True, message=f"stage {at.stage.name} is done")
    way = way.moved(WORKING, verdict.now)
    name = at.stage.name
    rendered = _render(verdict, observed, reach, lambda facts: [(name, content.stage(assets, at.stage, *facts))])
    if isinstance(rendered, Decision):
        return rendered
    [(_, objects)] = rendered
    resumed = dig(verdict.obj, "status.digest") == goal.digest
    if at.stage.action == "delete":
        plan = inventory.deletion(objects, observed.known, resumed=resumed)
    else:
        stages = {charts.identity(obj): name for obj in objects}
        plan = inventory.plan(objects, observed.known, resumed=resumed, stages=stages, prune=False)
    verdict.false("HelmChartApplied", "ObjectsApplyingOngoing", f"stage {name} of {observed.release}")
    begin = _begin(verdict, goal, plan, way)
    return Decision((*_finalizer(verdict.obj), *begin, _rollout(observed, reach, plan, objects)))


def _obstacle(verdict: Verdict, observed: Observed, at: Position) -> str | None:
    """Why the stage cannot go on, also as a condition; None where its condition is true."""
    condition = at.condition
    assert condition is not None
    which = "Post" if at.phase == AFTER else "Pre"
    reason, stage = f"FailedToEvaluate{which}Condition", f"stage {at.stage.name}"
    if isinstance(observed.bound, Unreachable):
        verdict.false("EvaluatedCEL", reason, f"{stage}: {observed.bound.message}")
        return observed.bound.message
    missing = [str(one) for one in condition.objects if observed.bound.get(one.key) is None]
    try:
        if missing:
            raise NotYet(f"{', '.join(missing)} is not there")
        if evaluate(condition.expression, observed.bound):
            return None
        message = f"{stage}: waiting until {condition.expression}"
    except NotYet as error:
        message = f"{stage}: waiting until {condition.expression}: {error}"
    except ExpressionError as error:
        message = f"{stage}: {error}"
        verdict.false("EvaluatedCEL", reason, message, "Error", tell="Warning")
        return message
    if at.overdue(verdict.now):
        message += f"; this has taken longer than {at.stage.timeout:g} s"
        verdict.false("EvaluatedCEL", f"{which}ConditionOverdue", message, "Warning", tell="Warning")
    else:
        verdict.false("EvaluatedCEL", reason, message, tell="Normal")
    return message


def _finish(
    verdict: Verdict, observed: Observed, reach: Reached, assets: Assets, goal: Target, way: Progress
) -> Decision:
    """Everything that is wanted in one rollout, which also prunes; after stages most of it is there already."""
    stages = assets.stages.wanted(goal.hook) if assets.stages else ()
    rendered = _render(verdict, observed, reach, lambda facts: content.wanted(assets, stages, *facts))
    if isinstance(rendered, Decision):
        return rendered
    return _whole(verdict, observed, reach, goal, way, rendered)


def _whole(
    verdict: Verdict,
    observed: Observed,
    reach: Reached,
    goal: Target,
    way: Progress,
    parts: Sequence[tuple[str, Sequence[Object]]],
) -> Decision:
    addon = verdict.obj
    objects = [obj for _, part in parts for obj in part]
    resumed = dig(addon, "status.digest") == goal.digest
    looking = resumed and dig(addon, "status.ready") is True
    stage_of = {charts.identity(obj): stage for stage, part in parts for obj in part}
    plan = inventory.plan(objects, observed.known, resumed=resumed and not looking, stages=stage_of)
    effects: tuple[Effect, ...] = ()
    if not looking or plan.count("apply") or plan.prune:
        verdict.false(
            "HelmChartApplied", "ObjectsApplyingOngoing", f"applying {len(objects)} objects of {goal.class_name}"
        )
        effects = _begin(verdict, goal, plan, way)
    policy = observed.policy
    only_report = looking and isinstance(policy, Policy) and policy.drift == "report"
    effects += (_rollout(observed, reach, plan, objects, only_report=only_report),)
    if not looking or plan.count("apply"):
        effects += (history.Remember(addon, goal.class_name, objects),)
    return Decision((*_finalizer(addon), *effects, *_advance(addon, goal)))


def _roll_back(verdict: Verdict, observed: Observed, reach: Reached, kept: history.Kept) -> Decision:
    if kept.problem:
        verdict.false("HelmChartApplied", "RollbackFailed", kept.problem, "Error", tell="Warning")
        return _waiting(verdict, BROKEN_RETRY, kept.problem)
    goal = target(observed)
    resumed = dig(verdict.obj, "status.digest") == goal.digest
    objects = list(kept.objects)
    plan = inventory.plan(objects, observed.known, resumed=resumed)
    verdict.false("HelmChartApplied", "RollingBack", f"going back to {kept.class_name}")
    effects = (*_begin(verdict, goal, plan, Progress()), _rollout(observed, reach, plan, objects))
    return Decision((*_finalizer(verdict.obj), *effects, *_advance(verdict.obj, goal)))


# -- parts of a rollout --------------------------------------------------------------------------------------------

_Parts = list[tuple[str, list[Object]]]


def _render(
    verdict: Verdict,
    observed: Observed,
    reach: Reached,
    render: Callable[[tuple[Mapping[str, Any], Facts]], _Parts],
) -> _Parts | Decision:
    """The objects as they are to be applied, or the decision where there are none: nothing is applied or pruned then,
    the last good state stays.
    """
    assert observed.facts is not None
    try:
        parts = render((values_context(observed), observed.facts))
        everything = [obj for _, part in parts for obj in part]
        served = {**reach.served, **defined_by(everything)}
        verdict.drop("HelmChartTemplated")
        return [(stage, desired(part, served, default_namespace=DEFAULT_NAMESPACE)) for stage, part in parts]
    except charts.ChartError as error:
        message = str(error)
        verdict.false("HelmChartTemplated", "TemplateNewClusterStackFailed", message, "Error", tell="Warning")
        return _waiting(verdict, BROKEN_RETRY, f"{observed.release}: {message}")
    except UnknownKinds as error:
        verdict.false("HelmChartApplied", "FailedToApplyObjects", str(error), "Error", tell="Warning")
        waiting = _waiting(verdict, PARTIAL_RETRY, str(error))
        return replace(waiting, effects=(*waiting.effects, Refresh(reach)))


def _begin(verdict: Verdict, goal: Target, plan: Plan, way: Progress) -> tuple[Effect, ...]:
    """The intent, written before anything is applied, so that no crash can orphan an object."""
    addon = verdict.obj
    entries = [entry.dump() for entry in inventory.intent(plan)]
    fields: Object = {"resources": entries, "digest": goal.digest, "kubernetesVersion": goal.told or None}
    fields |= {"stages": way.dump() or None}
    status = verdict.status(ready=False, **fields)
    if not changes(dig(addon, "status", {}), status):
        return ()
    return (Patch(CLUSTER_ADDON, addon, {"status": status}, subresource="status"),)


def _rollout(
    observed: Observed, reach: Reached, plan: Plan, objects: Sequence[Object], *, only_report: bool = False
) -> Rollout:
    policy = observed.policy if isinstance(observed.policy, Policy) else Policy()
    resources = {**reach.served, **defined_by(objects)}
    return Rollout(reach.workload, plan, resources, policy, only_report)


def _advance(addon: Object, goal: Target) -> tuple[Effect, ...]:
    """Records what is applied now, where users of cluster stacks look for it."""
    before = dig(addon, "spec.clusterStack")
    stage = "upgraded" if before and before != goal.class_name else None
    known = dig(addon, ("metadata", "annotations", STAGE_ANNOTATION))
    spec = {"clusterStack": goal.class_name, "version": goal.version, "hook": ""}
    patch: Object = {"spec": spec, "metadata": {"annotations": {STAGE_ANNOTATION: stage or known or "created"}}}
    return (Patch(CLUSTER_ADDON, addon, patch),) if changes(addon, patch) else ()
