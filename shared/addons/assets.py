"""The files that a release's addons are made of, out of storage or at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.releases.missing import MissingAssets, read
from shared.releases.release import Release
from shared.releases.stages import Stages, StagesError, parse
from shared.releases.store import ReleaseStore


@dataclass(frozen=True)
class Assets:
    """As far as a rollout needs them; `problem` is what is wrong with the release's clusteraddon.yaml."""

    release: Release
    archive: bytes
    values_template: bytes | None = None
    """Of a release without stages; with stages each chart has its own."""
    stages: Stages | None = None
    problem: str = ""


def load(store: ReleaseStore, tag: str) -> Assets | MissingAssets:
    """Of a stored release; only the files that are needed are read."""

    def of_stored(release: Release) -> Assets:
        needed = (release.addon_chart, release.stages or release.values_template)
        return of_files(release, {file: store.read(release, file) for file in needed if file})

    return read(store, tag, of_stored)


def of_files(release: Release, files: Mapping[str, bytes]) -> Assets:
    """Of a release whose files are at hand."""
    archive = files[release.addon_chart]
    if release.stages:
        try:
            return Assets(release, archive, stages=parse(files[release.stages], release.name.tag))
        except StagesError as error:
            return Assets(release, archive, problem=str(error))
    return Assets(release, archive, files[release.values_template] if release.values_template else None)
