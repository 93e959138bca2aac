"""The objects of a release for one cluster, rendered from its umbrella chart or from the charts of its stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shared import charts
from shared.kube import Object
from shared.releases.stages import Stage

from .assets import AddonAssets

OVERWRITE = "overwrite.yaml"
"""The values template in the folder of a stage's chart."""


@dataclass(frozen=True)
class Capabilities:
    """What a chart may ask about: the `version` (`v1.36.3`), what is served (`apps/v1`, `apps/v1/Deployment`), and the
    cluster to look objects up in; without one, lookups find nothing.
    """

    version: str
    api_versions: tuple[str, ...] = ()
    live: charts.LiveCluster | None = None


def chart_traits(assets: AddonAssets) -> charts.Traits:
    """Of all charts of the release together; of an archive that cannot be read, none: rendering will say why.

    Raises `ChartError` where looking through them exceeds a limit: they may need anything then.
    """
    try:
        return charts.traits(assets.archive, assets.release.addon_chart)
    except charts.ArchiveError:
        return charts.Traits(-1, asks=False, looks_up=False, remote_schema=False, varies=False)


def umbrella_objects(assets: AddonAssets, context: Mapping[str, Any], facts: Capabilities) -> list[Object]:
    """The objects of a release without stages. Raises `ChartError`."""
    return _render(
        assets.archive, assets.values_template, context, assets.release.addon_chart, facts, charts.VALUES_FILE
    )


def stage_objects(assets: AddonAssets, stage: Stage, context: Mapping[str, Any], facts: Capabilities) -> list[Object]:
    """The objects of one stage. Raises `ChartError`, also where the archive has no such chart."""
    archive = assets.release.addon_chart
    members = charts.folder(charts.inspect(assets.archive, archive), stage.name)
    if f"{stage.name}/Chart.yaml" not in members:
        raise charts.ArchiveError(f"{archive}: there is no chart {stage.name!r} in it, which a stage names")
    template = members.get(f"{stage.name}/{OVERWRITE}")
    name = f"{archive}: {stage.name}"
    return _render(charts.pack(members), template, context, name, facts, f"{name}/{OVERWRITE}")


def release_objects(
    assets: AddonAssets, stages: Iterable[Stage], context: Mapping[str, Any], facts: Capabilities
) -> list[tuple[str, list[Object]]]:
    """Everything that the cluster is to have in the end, by stage. Raises `ChartError`."""
    if assets.stages is None:
        return [("", umbrella_objects(assets, context, facts))]
    return [(one.name, stage_objects(assets, one, context, facts)) for one in stages if one.action == "apply"]


def _render(
    chart: bytes, template: bytes | None, context: Mapping[str, Any], name: str, facts: Capabilities, values_name: str
) -> list[Object]:
    try:
        text = template.decode() if template is not None else None
    except UnicodeDecodeError as error:
        raise charts.ValuesError(f"{values_name}: not UTF-8") from error
    return charts.render_addon(
        chart,
        text,
        context,
        chart_name=name,
        values_name=values_name,
        kube_version=facts.version,
        api_versions=facts.api_versions,
        live=facts.live,
    )
