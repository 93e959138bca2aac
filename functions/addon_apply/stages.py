"""Carries out one step of a stage: evaluates a condition, or applies or deletes the stage's chart."""

from __future__ import annotations

from dataclasses import replace

from shared.addons import rendering
from shared.addons.context import ReleaseContext
from shared.addons.target import AFTER, BEFORE, DONE, WORKING, StagePosition
from shared.applier import inventory
from shared.applier.connection import ConnectionFailed
from shared.applier.outcome import RolloutOutcome
from shared.cel import ExpressionError, NotYet, evaluate
from shared.manifests import identity
from shared.runtime import Decision

from .rollout import record_intent, rollout_effect
from .status import AddonStatusBuilder
from .waits import CONDITION_RETRY, ensure_addon_finalizer, wait


def advance_stage(builder: AddonStatusBuilder, context: ReleaseContext, position: StagePosition) -> Decision:
    """Carries out the next step of the current stage. Raises as `rendering.render_stage` does."""
    obstacle = _unmet_condition(builder, context, position)
    if obstacle:
        progress = context.progress.with_current_phase(AFTER if position.phase == AFTER else BEFORE, builder.now)
        return wait(builder, CONDITION_RETRY, obstacle, stages=progress.dump(), digest=context.target.digest)
    if position.phase == AFTER:
        progress = context.progress.with_current_phase(DONE, builder.now)
        status = builder.status(ready=False, stages=progress.dump())
        return Decision(status=status, proceed=True, message=f"{context}: stage {position.stage.name} is done")
    working = replace(context, progress=context.progress.with_current_phase(WORKING, builder.now))
    return _roll_out_stage(builder, working, position)


def _roll_out_stage(builder: AddonStatusBuilder, context: ReleaseContext, position: StagePosition) -> Decision:
    name = position.stage.name
    objects, save = rendering.render_stage(context, position.stage)
    builder.remove("HelmChartTemplated")  # the chart was rendered
    if position.stage.action == "delete":
        plan = inventory.deletion(objects, context.inventory, resumed=context.resumed)
    else:
        stages = {identity(obj): name for obj in objects}
        plan = inventory.plan(objects, context.inventory, resumed=context.resumed, stages=stages, prune=False)
    builder.set_false("HelmChartApplied", "ObjectsApplyingOngoing", f"{context}: stage {name}")
    intent = record_intent(builder, context, plan)
    rollout = rollout_effect(context, plan, objects)
    return Decision((*ensure_addon_finalizer(context.addon), *save, *intent, rollout))


def report_stage(
    builder: AddonStatusBuilder,
    context: ReleaseContext,
    position: StagePosition,
    decision: Decision,
    outcome: RolloutOutcome,
) -> Decision:
    """Reports that the stage's chart is applied or deleted. The next step evaluates the condition after the stage."""
    progress = context.progress.with_current_phase(AFTER if position.stage.after else DONE, builder.now)
    verb = "deleted" if position.stage.action == "delete" else "applied"
    message = f"{context}: stage {position.stage.name} {verb}"
    builder.add_event("StageDone", message)
    builder.set_false("HelmChartApplied", "ObjectsApplyingOngoing", message)
    status = builder.status(ready=False, resources=inventory.dump(outcome.entries), stages=progress.dump())
    return replace(
        decision, status=status, kubernetes_events=tuple(builder.kubernetes_events), proceed=True, message=message
    )


def _unmet_condition(builder: AddonStatusBuilder, context: ReleaseContext, position: StagePosition) -> str:
    """Returns why the stage's condition is not met, and sets EvaluatedCEL; empty if it is met or there is none."""
    condition = position.condition
    if condition is None:
        return ""
    which = "Post" if position.phase == AFTER else "Pre"
    reason, stage = f"FailedToEvaluate{which}Condition", f"{context}: stage {position.stage.name}"
    if isinstance(context.condition_objects, ConnectionFailed):
        message = f"{stage}: {context.condition_objects.message}"
        builder.set_false("EvaluatedCEL", reason, message, event_type="Warning")
        return message
    missing = [str(one) for one in condition.objects if context.condition_objects.get(one.key) is None]
    try:
        if missing:
            raise NotYet(f"{', '.join(missing)} does not exist")
        if evaluate(condition.expression, context.condition_objects):
            return ""
        message = f"{stage}: waiting until {condition.expression}"
    except NotYet as error:
        message = f"{stage}: waiting until {condition.expression}: {error}"
    except ExpressionError as error:
        message = f"{stage}: {error}"
        builder.set_false("EvaluatedCEL", reason, message, "Error", event_type="Warning")
        return message
    if position.is_overdue(builder.now):
        message += f"; this has taken longer than {position.stage.timeout:g} s"
        builder.set_false("EvaluatedCEL", f"{which}ConditionOverdue", message, "Warning", event_type="Warning")
    else:
        builder.set_false("EvaluatedCEL", reason, message, event_type="Normal")
    return message
