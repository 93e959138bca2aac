"""Renders the desired objects of a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.applier.desired import desired, kinds_defined_by
from shared.charts import ChartError
from shared.kube import Object
from shared.releases.stages import Stage

from . import chart_objects, first_values
from .context import ReleaseContext
from .first_values import FirstValues, RenderedAddons
from .owner import OWNER

DEFAULT_NAMESPACE = chart_objects.RELEASE.namespace


def render_stage(context: ReleaseContext, stage: Stage) -> RenderedAddons:
    """Returns the desired objects of one stage.

    Raises:
        ChartError: The stage's chart failed, or the stored values cannot be used.
        UnknownKinds: The cluster does not serve a kind.
    """
    rendered = first_values.render(
        context.assets,
        lambda assets: [
            (stage.name, chart_objects.stage_objects(assets, stage, context.template_context, context.capabilities))
        ],
        _first_values(context),
    )
    return replace(rendered, stages=_desired(context, rendered.stages))


def render_release(context: ReleaseContext) -> RenderedAddons:
    """Returns all desired objects of the release by stage.

    Without stages, all objects belong to the stage with the empty name.

    Raises:
        ChartError: A chart failed, or the stored values cannot be used.
        UnknownKinds: The cluster does not serve a kind.
    """
    rendered = render_charts(context)
    return replace(rendered, stages=_desired(context, rendered.stages))


def render_charts(context: ReleaseContext) -> RenderedAddons:
    """Returns all objects of the release as its charts render them.

    Raises:
        ChartError: A chart failed, or the stored values cannot be used.
    """
    stages = context.assets.stages.desired(context.target.hook) if context.assets.stages else ()
    return first_values.render(
        context.assets,
        lambda assets: chart_objects.release_objects(assets, stages, context.template_context, context.capabilities),
        _first_values(context),
    )


def _first_values(context: ReleaseContext) -> FirstValues:
    if context.stored_values.problem:
        raise ChartError(context.stored_values.problem)
    return context.stored_values.record


def _desired(context: ReleaseContext, stages: Sequence[tuple[str, list[Object]]]) -> list[tuple[str, list[Object]]]:
    served = {**context.connection.served, **kinds_defined_by(obj for _, objects in stages for obj in objects)}
    return [(stage, desired(objects, served, OWNER, default_namespace=DEFAULT_NAMESPACE)) for stage, objects in stages]
