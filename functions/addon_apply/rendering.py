"""The objects of a release as they are to be applied: for one stage, or all that are wanted in the end.

Raises `ChartError`, or `UnknownKinds` for what the cluster does not serve.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.addons import content, generated
from shared.addons.generated import Record, Rendered
from shared.applier.desired import defined_by, desired
from shared.charts import ChartError
from shared.effects import Effect
from shared.kube import Object
from shared.releases.stages import Stage
from shared.runtime.status import V1Beta1StatusBuilder

from .case import Release
from .generated import keep

DEFAULT_NAMESPACE = "kube-system"


def of_stage(builder: V1Beta1StatusBuilder, case: Release, stage: Stage) -> tuple[list[Object], tuple[Effect, ...]]:
    """The objects of one stage, and what is to be done before they are applied."""
    rendered = generated.render(
        case.assets,
        lambda assets: [(stage.name, content.stage(assets, stage, case.context, case.facts))],
        _record(case),
    )
    [(_, wanted)] = _desired(builder, case, rendered.parts)
    return wanted, keep(case.addon, case.generated, rendered)


def of_all(builder: V1Beta1StatusBuilder, case: Release) -> tuple[list[tuple[str, list[Object]]], tuple[Effect, ...]]:
    """By stage; of a release without stages everything is of one that has no name."""
    rendered = render(case)
    return _desired(builder, case, rendered.parts), keep(case.addon, case.generated, rendered)


def render(case: Release) -> Rendered:
    """Everything that the release wants in the end, as its charts give it. Raises `ChartError`."""
    stages = case.assets.stages.wanted(case.goal.hook) if case.assets.stages else ()
    return generated.render(
        case.assets, lambda assets: content.wanted(assets, stages, case.context, case.facts), _record(case)
    )


def _record(case: Release) -> Record:
    if case.generated.problem:
        raise ChartError(case.generated.problem)
    return case.generated.record


def _desired(
    builder: V1Beta1StatusBuilder, case: Release, parts: Sequence[tuple[str, list[Object]]]
) -> list[tuple[str, list[Object]]]:
    builder.remove("HelmChartTemplated")  # it says what was wrong with the charts
    served = {**case.reach.served, **defined_by(obj for _, part in parts for obj in part)}
    return [(stage, desired(part, served, default_namespace=DEFAULT_NAMESPACE)) for stage, part in parts]
