"""One step of one stage: a condition that is looked at, or its chart applied or deleted."""

from __future__ import annotations

from dataclasses import replace

from shared.addons import rendering
from shared.addons.context import Release
from shared.addons.target import AFTER, BEFORE, DONE, WORKING, Position
from shared.applier import inventory
from shared.applier.connection import ConnectionFailed
from shared.applier.outcome import RolloutOutcome
from shared.cel import ExpressionError, NotYet, evaluate
from shared.manifests import identity
from shared.runtime import Decision

from . import parts
from .status import AddonStatus
from .waits import CONDITION_RETRY, finalizer, waiting


def step(builder: AddonStatus, case: Release, at: Position) -> Decision:
    obstacle = _obstacle(builder, case, at)
    if obstacle:
        way = case.way.moved(AFTER if at.phase == AFTER else BEFORE, builder.now)
        return waiting(builder, CONDITION_RETRY, obstacle, stages=way.dump(), digest=case.goal.digest)
    if at.phase == AFTER:
        way = case.way.moved(DONE, builder.now)
        status = builder.status(ready=False, stages=way.dump())
        return Decision(status=status, proceed=True, message=f"{case}: stage {at.stage.name} is done")
    return _work(builder, replace(case, way=case.way.moved(WORKING, builder.now)), at)


def _work(builder: AddonStatus, case: Release, at: Position) -> Decision:
    name = at.stage.name
    objects, keep = rendering.of_stage(case, at.stage)
    builder.remove("HelmChartTemplated")  # the chart was rendered
    if at.stage.action == "delete":
        plan = inventory.deletion(objects, case.known, resumed=case.resumed)
    else:
        stages = {identity(obj): name for obj in objects}
        plan = inventory.plan(objects, case.known, resumed=case.resumed, stages=stages, prune=False)
    builder.set_false("HelmChartApplied", "ObjectsApplyingOngoing", f"{case}: stage {name}")
    begin = parts.begin(builder, case, plan)
    return Decision((*finalizer(case.addon), *keep, *begin, parts.rollout(case, plan, objects)))


def worked(builder: AddonStatus, case: Release, at: Position, decision: Decision, outcome: RolloutOutcome) -> Decision:
    """The stage's chart is applied or deleted; what may be left of it is its second condition."""
    way = case.way.moved(AFTER if at.stage.after else DONE, builder.now)
    word = "deleted" if at.stage.action == "delete" else "applied"
    message = f"{case}: stage {at.stage.name} {word}"
    builder.add_event("StageDone", message)
    builder.set_false("HelmChartApplied", "ObjectsApplyingOngoing", message)
    status = builder.status(ready=False, resources=inventory.dump(outcome.entries), stages=way.dump())
    return replace(
        decision, status=status, kubernetes_events=tuple(builder.kubernetes_events), proceed=True, message=message
    )


def _obstacle(builder: AddonStatus, case: Release, at: Position) -> str:
    """Why the stage cannot go on, also as a condition; empty where its condition is true, or it has none now."""
    condition = at.condition
    if condition is None:
        return ""
    which = "Post" if at.phase == AFTER else "Pre"
    reason, stage = f"FailedToEvaluate{which}Condition", f"{case}: stage {at.stage.name}"
    if isinstance(case.bound, ConnectionFailed):
        message = f"{stage}: {case.bound.message}"
        builder.set_false("EvaluatedCEL", reason, message, event_type="Warning")
        return message
    missing = [str(one) for one in condition.objects if case.bound.get(one.key) is None]
    try:
        if missing:
            raise NotYet(f"{', '.join(missing)} is not there")
        if evaluate(condition.expression, case.bound):
            return ""
        message = f"{stage}: waiting until {condition.expression}"
    except NotYet as error:
        message = f"{stage}: waiting until {condition.expression}: {error}"
    except ExpressionError as error:
        message = f"{stage}: {error}"
        builder.set_false("EvaluatedCEL", reason, message, "Error", event_type="Warning")
        return message
    if at.overdue(builder.now):
        message += f"; this has taken longer than {at.stage.timeout:g} s"
        builder.set_false("EvaluatedCEL", f"{which}ConditionOverdue", message, "Warning", event_type="Warning")
    else:
        builder.set_false("EvaluatedCEL", reason, message, event_type="Normal")
    return message
