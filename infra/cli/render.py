"""`render`: what a release brings to a cluster, from files alone."""

from __future__ import annotations

from pathlib import Path

from infra.release_tools.documents import load
from infra.release_tools.folder import read
from infra.release_tools.samples import Sample, of_file
from shared.addons.assets import assets_from_files
from shared.addons.content import Capabilities, chart_traits, release_objects
from shared.kube import Object
from shared.releases.stages import AFTER_CONTROL_PLANE_INITIALIZED


def render(
    folder: Path,
    cluster: Path,
    *,
    control_plane: Path | None = None,
    infra: Path | None = None,
    kube_version: str | None = None,
    hook: str = AFTER_CONTROL_PLANE_INITIALIZED,
) -> list[Object]:
    """Like `render_release`, also `OSError`; what the Cluster refers to may be beside it in its file."""
    sample = dict(of_file(cluster))
    for root, path in (("ControlPlane", control_plane), ("InfraCluster", infra)):
        if path is not None:
            sample[root] = _first(path)
    return render_release(folder, sample, kube_version, hook)


def render_release(
    folder: Path, sample: Sample, kube_version: str | None = None, hook: str = AFTER_CONTROL_PLANE_INITIALIZED
) -> list[Object]:
    """The objects that a cluster has once `hook` is gone through, in the order of the stages, if there are any.

    Raises `ChartError`, `InvalidRelease`, `InvalidName`, `SourceError`, or `ValueError` for stages that cannot be used.
    """
    release, files = read(folder)
    assets = assets_from_files(release, files)
    if assets.problem:
        raise ValueError(assets.problem)
    stages = assets.stages.desired(hook) if assets.stages else ()
    facts = Capabilities(kube_version or release.metadata.kubernetes)
    return [obj for _, objects in release_objects(assets, stages, sample, facts) for obj in objects]


def remarks(folder: Path) -> list[str]:
    """What is to be known about the objects that are rendered without a cluster. Raises like `render_release`."""
    if chart_traits(assets_from_files(*read(folder))).looks_up:
        return ["the charts call `lookup`: there is no cluster here, so lookups come back empty"]
    return []


def _first(path: Path) -> Object:
    found = load(path)
    if not found:
        raise ValueError(f"{path}: no object in it")
    return found[0]
