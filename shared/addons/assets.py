"""The files of a release from which its addons are rendered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.releases.missing_assets import MissingAssets, read_release
from shared.releases.release import Release
from shared.releases.stages import Stages, StagesError, parse
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
