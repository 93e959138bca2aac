"""Renders the objects of a release for one cluster from its files: its umbrella chart, or the charts of its stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared import charts
from shared.charts import Capabilities
from shared.kube import Object
from shared.releases.missing_assets import MissingAssets, read_release
from shared.releases.release import Release
from shared.releases.stages import Stage, Stages, StagesError, parse
from shared.releases.store import ReleaseStore


@dataclass(frozen=True)
class AddonAssets:
    """The files that a sync needs; `problem` says what is wrong with the release's clusteraddon.yaml."""

    release: Release
    archive: bytes
    values_template: bytes | None = None
    """The template of a release without stages; with stages each chart has its own template."""
    stages: Stages | None = None
    problem: str = ""


def load_assets(store: ReleaseStore, tag: str) -> AddonAssets | MissingAssets:
    """Reads the needed files of release `tag` from storage."""

    def of_stored(release: Release) -> AddonAssets:
        needed = (release.addon_chart, release.stages or release.values_template)
        return assets_from_files(release, {file: store.read(release, file) for file in needed if file})

    return read_release(store, tag, of_stored)


def assets_from_files(release: Release, files: Mapping[str, bytes]) -> AddonAssets:
    """Returns the assets of a release from its files.

    Args:
        release: The release.
        files: The content of each file by name; needs the addon chart, and the stages or the values template.
    """
    archive = files[release.addon_chart]
    if release.stages:
        try:
            return AddonAssets(release, archive, stages=parse(files[release.stages], release.name.tag))
        except StagesError as error:
            return AddonAssets(release, archive, problem=str(error))
    return AddonAssets(release, archive, files[release.values_template] if release.values_template else None)


RELEASE: Final = charts.Release("cluster-addon", "kube-system")
OVERWRITE: Final = "overwrite.yaml"
"""The values template in the folder of a stage's chart."""


def chart_traits(assets: AddonAssets) -> charts.Traits:
    """Returns the traits of the release's archive: each is set if any chart in the archive may have it.

    For an unreadable archive no trait is set, because its rendering will report the error.

    Raises:
        ChartError: The charts exceed a limit, so their traits are unknown.
    """
    try:
        return charts.traits(assets.archive, assets.release.addon_chart)
    except charts.ArchiveError:
        return charts.Traits(-1, needs_cluster_facts=False, looks_up=False, remote_schema=False, varies=False)


def umbrella_objects(assets: AddonAssets, context: Mapping[str, Any], capabilities: Capabilities) -> list[Object]:
    """Returns the objects of a release without stages.

    Args:
        assets: The files of the release.
        context: The objects that the values template sees, by name (`Cluster`).
        capabilities: The cluster as charts see it.

    Raises:
        ChartError: The chart or its values template failed, or exceeded a limit.
        ApiError: A chart looks up an object, and the cluster does not answer.
    """
    return _render(
        assets.archive, assets.values_template, context, assets.release.addon_chart, capabilities, charts.VALUES_FILE
    )


def stage_objects(
    assets: AddonAssets, stage: Stage, context: Mapping[str, Any], capabilities: Capabilities
) -> list[Object]:
    """Returns the objects of one stage; see `umbrella_objects`.

    Raises:
        ChartError: The chart or its values template failed, exceeded a limit, or is not in the archive.
        ApiError: See `umbrella_objects`.
    """
    archive = assets.release.addon_chart
    members = charts.folder(charts.inspect(assets.archive, archive), stage.name)
    if f"{stage.name}/Chart.yaml" not in members:
        raise charts.ArchiveError(f"{archive}: does not contain chart {stage.name!r} of a stage")
    template = members.get(f"{stage.name}/{OVERWRITE}")
    name = f"{archive}: {stage.name}"
    return _render(charts.pack(members), template, context, name, capabilities, f"{name}/{OVERWRITE}")


def release_objects(
    assets: AddonAssets, stages: Iterable[Stage], context: Mapping[str, Any], capabilities: Capabilities
) -> list[tuple[str, list[Object]]]:
    """Returns all objects that the cluster has at the end of a sync, by stage; see `umbrella_objects`.

    Without stages, all objects belong to the stage with the empty name.

    Raises:
        ChartError: A chart or its values template failed, or exceeded a limit.
        ApiError: See `umbrella_objects`.
    """
    if assets.stages is None:
        return [("", umbrella_objects(assets, context, capabilities))]
    return [(one.name, stage_objects(assets, one, context, capabilities)) for one in stages if one.action == "apply"]


def _render(
    chart: bytes,
    template: bytes | None,
    context: Mapping[str, Any],
    name: str,
    capabilities: Capabilities,
    values_name: str,
) -> list[Object]:
    try:
        text = template.decode() if template is not None else None
    except UnicodeDecodeError as error:
        raise charts.ValuesError(f"{values_name} is not UTF-8") from error
    return charts.render_addon(
        chart,
        text,
        context,
        RELEASE,
        chart_name=name,
        values_name=values_name,
        capabilities=capabilities,
    )
