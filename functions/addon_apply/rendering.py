"""The objects of a release as they are to be applied: for one stage, or all that are wanted in the end.

Raises `ChartError`, or `UnknownKinds` for what the cluster does not serve.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.addons import content
from shared.kube import Object
from shared.releases.stages import Stage
from shared.runtime.verdict import Verdict
from shared.workload.desired import defined_by, desired

from .case import Release

DEFAULT_NAMESPACE = "kube-system"


def of_stage(verdict: Verdict, case: Release, stage: Stage) -> list[Object]:
    objects = content.stage(case.assets, stage, case.context, case.facts)
    [(_, wanted)] = _desired(verdict, case, [(stage.name, objects)])
    return wanted


def of_all(verdict: Verdict, case: Release) -> list[tuple[str, list[Object]]]:
    """By stage; of a release without stages everything is of one that has no name."""
    stages = case.assets.stages.wanted(case.goal.hook) if case.assets.stages else ()
    return _desired(verdict, case, content.wanted(case.assets, stages, case.context, case.facts))


def _desired(
    verdict: Verdict, case: Release, parts: Sequence[tuple[str, list[Object]]]
) -> list[tuple[str, list[Object]]]:
    verdict.drop("HelmChartTemplated")  # it says what was wrong with the charts
    served = {**case.reach.served, **defined_by(obj for _, part in parts for obj in part)}
    return [(stage, desired(part, served, default_namespace=DEFAULT_NAMESPACE)) for stage, part in parts]
