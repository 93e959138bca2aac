"""Decides one step of a stage: waits for its condition, or applies or deletes the objects of its chart."""

from __future__ import annotations

from dataclasses import replace

from shared.addons.context import ReleaseContext
from shared.addons.first_values import RenderedAddons
from shared.addons.stored_values import save_effects
from shared.addons.target import AFTER, BEFORE, DONE, WORKING, StagePosition
from shared.applier import inventory
from shared.applier.outcome import SyncOutcome
from shared.runtime import Decision

from .status import CONDITION_RETRY, AddonStatusBuilder
from .step import UnknownCondition, UnmetCondition
from .sync import record_intent, sync_effect, too_large


def sync_stage(
    builder: AddonStatusBuilder, context: ReleaseContext, position: StagePosition, rendered: RenderedAddons
) -> Decision:
    """Applies or deletes the objects of the stage."""
    working = replace(context, progress=context.progress.with_current_phase(WORKING, builder.now))
    name, objects = position.stage.name, rendered.objects
    if position.stage.action == "delete":
        plan = inventory.deletion(objects, context.inventory, resumed=context.resumed)
    else:
        plan = inventory.plan(
            objects,
            context.inventory,
            resumed=context.resumed,
            stages=rendered.stage_of,
            prune=False,
            operations={name: context.operation(name)},
        )
    if problem := inventory.why_too_large(plan):
        return too_large(builder, context, problem)
    builder.set_false("HelmChartApplied", "ObjectsApplyingOngoing", f"{context}: stage {name}")
    intent = record_intent(builder, working, plan)
    save = save_effects(context.addon, context.stored_values, rendered)
    sync = sync_effect(context, plan, objects)
    return Decision((*builder.finalizer(), *intent, *save, sync))


def finish_stage(builder: AddonStatusBuilder, context: ReleaseContext, position: StagePosition) -> Decision:
    """Goes on to the next stage, after the condition that follows this one is met."""
    progress = context.progress.with_current_phase(DONE, builder.now)
    message = f"{context}: stage {position.stage.name} is done"
    return builder.decision(proceed=True, message=message, ready=False, stages=progress.dump())


def report_stage(
    builder: AddonStatusBuilder,
    context: ReleaseContext,
    position: StagePosition,
    outcome: SyncOutcome,
) -> Decision:
    """Reports that the stage's chart is applied or deleted. The next step evaluates the condition after the stage."""
    progress = context.progress.with_current_phase(AFTER if position.stage.after else DONE, builder.now)
    verb = "deleted" if position.stage.action == "delete" else "applied"
    message = f"{context}: stage {position.stage.name} {verb}"
    builder.add_event("StageDone", message)
    builder.set_false("HelmChartApplied", "ObjectsApplyingOngoing", message)
    return builder.decision(
        proceed=True,
        message=message,
        ready=False,
        resources=inventory.dump(outcome.entries),
        stages=progress.dump(),
    )


def await_condition(
    builder: AddonStatusBuilder, context: ReleaseContext, obstacle: UnmetCondition | UnknownCondition
) -> Decision:
    """Waits until the condition of the stage is met."""
    position = obstacle.position
    which = "Post" if position.phase == AFTER else "Pre"
    reason, message = f"FailedToEvaluate{which}Condition", f"{context}: stage {position.stage.name}: {obstacle.problem}"
    if isinstance(obstacle, UnknownCondition):
        builder.set_false("EvaluatedCEL", reason, message, event_type="Warning")
    elif obstacle.invalid:
        builder.set_false("EvaluatedCEL", reason, message, "Error", event_type="Warning")
    elif position.is_overdue(builder.now):
        message += f"; the timeout of the stage ({position.stage.timeout:g} s) has passed"
        builder.set_false("EvaluatedCEL", f"{which}ConditionOverdue", message, "Warning", event_type="Warning")
    else:
        builder.set_false("EvaluatedCEL", reason, message, event_type="Normal")
    progress = context.progress.with_current_phase(AFTER if position.phase == AFTER else BEFORE, builder.now)
    return builder.wait(CONDITION_RETRY, message, stages=progress.dump(), digest=context.target.digest)
