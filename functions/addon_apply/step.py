"""Finds the next step in the sync of a release.

It evaluates conditions and renders charts only when their step is due; decisions see the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.addons import rendering
from shared.addons.context import ReleaseContext
from shared.addons.first_values import RenderedAddons
from shared.addons.target import AFTER, StagePosition, is_applied
from shared.applier.connection import ConnectionFailed
from shared.applier.desired import UnknownKinds
from shared.cel import ExpressionError, NotYet, evaluate
from shared.charts import ChartError
from shared.kube import ApiError
from shared.sandbox import Busy


@dataclass(frozen=True)
class Unchanged:
    """The former release has the same addons."""


@dataclass(frozen=True)
class InvalidStages:
    """The stages of the release cannot be read."""

    problem: str


@dataclass(frozen=True)
class UnreadableReference:
    """An object that the templates of the release see cannot be read."""

    problem: str


@dataclass(frozen=True)
class UnmetCondition:
    """The condition of the current stage is not met; with `invalid` it can never be met."""

    position: StagePosition
    problem: str
    invalid: bool = False


@dataclass(frozen=True)
class UnknownCondition:
    """The objects that the condition of the current stage refers to cannot be read."""

    position: StagePosition
    problem: str


@dataclass(frozen=True)
class StageDone:
    """The current stage is applied, and its condition afterwards is met."""

    position: StagePosition


Step = (
    Unchanged
    | InvalidStages
    | UnreadableReference
    | UnmetCondition
    | UnknownCondition
    | StageDone
    | ChartError
    | UnknownKinds
    | ConnectionFailed
    | RenderedAddons
)
"""The next step, or the obstacle to it. `RenderedAddons` are the objects to apply or delete next."""


@dataclass(frozen=True)
class ReleaseStep:
    """The next step in the sync of a release."""

    context: ReleaseContext
    step: Step


def find_step(context: ReleaseContext) -> Step:
    """Returns the next step of a sync. Raises `Busy` if this process renders too much already."""
    if not context.resumed and is_applied(context.addon, context.target):
        return Unchanged()
    if context.assets.problem:
        return InvalidStages(context.assets.problem)
    if context.unreadable:
        return UnreadableReference(context.unreadable)
    position = context.position
    if position is None:
        return _rendered(lambda: rendering.render_release(context))
    obstacle = _unmet_condition(context, position)
    if obstacle is not None:
        return obstacle
    if position.phase == AFTER:
        return StageDone(position)
    return _rendered(lambda: rendering.render_stage(context, position.stage))


def _rendered(render: Callable[[], RenderedAddons]) -> Step:
    try:
        return render()
    except (ChartError, UnknownKinds) as error:
        return error
    except Busy:
        raise  # this process is overloaded, not the cluster, so there is nothing to decide
    except ApiError as error:
        return ConnectionFailed(f"the workload API server does not answer: {error}")


def _unmet_condition(context: ReleaseContext, position: StagePosition) -> UnmetCondition | UnknownCondition | None:
    """Returns why the stage's condition is not met; None if it is met or there is none."""
    condition, objects = position.condition, context.condition_objects
    if condition is None:
        return None
    if isinstance(objects, ConnectionFailed):
        return UnknownCondition(position, objects.message)
    waiting = f"waiting until {condition.expression}"
    missing = [str(one) for one in condition.objects if objects.get(one.key) is None]
    if missing:
        return UnmetCondition(position, f"{waiting}: {', '.join(missing)} does not exist")
    try:
        met = evaluate(condition.expression, objects)
        return None if met else UnmetCondition(position, waiting)
    except NotYet as error:
        return UnmetCondition(position, f"{waiting}: {error}")
    except ExpressionError as error:
        return UnmetCondition(position, str(error), invalid=True)
