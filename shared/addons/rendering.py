"""The objects of a release as they are to be applied: for one stage, or all that are wanted in the end.

Raises `ChartError`, or `UnknownKinds` for what the cluster does not serve.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.applier.desired import desired, kinds_defined_by
from shared.charts import ChartError
from shared.effects import Effect
from shared.kube import Object
from shared.releases.stages import Stage

from . import content, first_values
from .context import ReleaseContext
from .first_values import FirstValues, RenderedAddons
from .stored_values import save_effects

DEFAULT_NAMESPACE = "kube-system"


def render_stage(context: ReleaseContext, stage: Stage) -> tuple[list[Object], tuple[Effect, ...]]:
    """The objects of one stage, and what is to be done before they are applied."""
    rendered = first_values.render(
        context.assets,
        lambda assets: [
            (stage.name, content.stage_objects(assets, stage, context.template_context, context.capabilities))
        ],
        _first_values(context),
    )
    [(_, wanted)] = _desired(context, rendered.stages)
    return wanted, save_effects(context.addon, context.stored_values, rendered)


def render_release(context: ReleaseContext) -> tuple[list[tuple[str, list[Object]]], tuple[Effect, ...]]:
    """By stage; of a release without stages everything is of one that has no name."""
    rendered = render_charts(context)
    return _desired(context, rendered.stages), save_effects(context.addon, context.stored_values, rendered)


def render_charts(context: ReleaseContext) -> RenderedAddons:
    """Everything that the release wants in the end, as its charts give it. Raises `ChartError`."""
    stages = context.assets.stages.desired(context.target.hook) if context.assets.stages else ()
    return first_values.render(
        context.assets,
        lambda assets: content.release_objects(assets, stages, context.template_context, context.capabilities),
        _first_values(context),
    )


def _first_values(context: ReleaseContext) -> FirstValues:
    if context.stored_values.problem:
        raise ChartError(context.stored_values.problem)
    return context.stored_values.record


def _desired(context: ReleaseContext, parts: Sequence[tuple[str, list[Object]]]) -> list[tuple[str, list[Object]]]:
    served = {**context.connection.served, **kinds_defined_by(obj for _, part in parts for obj in part)}
    return [(stage, desired(part, served, default_namespace=DEFAULT_NAMESPACE)) for stage, part in parts]
