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
from .context import Release
from .first_values import Record, Rendered
from .kept_values import keep

DEFAULT_NAMESPACE = "kube-system"


def of_stage(case: Release, stage: Stage) -> tuple[list[Object], tuple[Effect, ...]]:
    """The objects of one stage, and what is to be done before they are applied."""
    rendered = first_values.render(
        case.assets,
        lambda assets: [(stage.name, content.stage(assets, stage, case.context, case.facts))],
        _record(case),
    )
    [(_, wanted)] = _desired(case, rendered.parts)
    return wanted, keep(case.addon, case.generated, rendered)


def of_all(case: Release) -> tuple[list[tuple[str, list[Object]]], tuple[Effect, ...]]:
    """By stage; of a release without stages everything is of one that has no name."""
    rendered = render(case)
    return _desired(case, rendered.parts), keep(case.addon, case.generated, rendered)


def render(case: Release) -> Rendered:
    """Everything that the release wants in the end, as its charts give it. Raises `ChartError`."""
    stages = case.assets.stages.wanted(case.goal.hook) if case.assets.stages else ()
    return first_values.render(
        case.assets, lambda assets: content.wanted(assets, stages, case.context, case.facts), _record(case)
    )


def _record(case: Release) -> Record:
    if case.generated.problem:
        raise ChartError(case.generated.problem)
    return case.generated.record


def _desired(case: Release, parts: Sequence[tuple[str, list[Object]]]) -> list[tuple[str, list[Object]]]:
    served = {**case.reach.served, **kinds_defined_by(obj for _, part in parts for obj in part)}
    return [(stage, desired(part, served, default_namespace=DEFAULT_NAMESPACE)) for stage, part in parts]
