"""The command `render`: renders the objects of a release from files, without a cluster."""

from __future__ import annotations

from pathlib import Path

from infra.release_tools.documents import load
from infra.release_tools.folder import read_release
from infra.release_tools.samples import Sample, sample_from_file
from shared.addons.chart_objects import assets_from_files, chart_traits, release_objects
from shared.charts import Capabilities
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
    """Renders a release for a Cluster in a file.

    Args:
        folder: The folder of the release.
        cluster: A YAML file with the Cluster, and optionally the objects that it refers to.
        control_plane: A YAML file with the control plane object.
        infra: A YAML file with the infrastructure object.
        kube_version: The Kubernetes version (`v1.36.3`); by default the release's.
        hook: The hook whose stages are rendered.

    Raises:
        OSError: A file cannot be read.
        Exception: As `render_release` does.
    """
    sample = dict(sample_from_file(cluster))
    for root, path in (("ControlPlane", control_plane), ("InfraCluster", infra)):
        if path is not None:
            sample[root] = _first(path)
    return render_release(folder, sample, kube_version, hook)


def render_release(
    folder: Path, sample: Sample, kube_version: str | None = None, hook: str = AFTER_CONTROL_PLANE_INITIALIZED
) -> list[Object]:
    """Returns the objects that a cluster has after the stages of `hook`, in the order of the stages.

    Args:
        folder: The folder of the release.
        sample: The objects that values templates see, by name (`Cluster`).
        kube_version: The Kubernetes version (`v1.36.3`); by default the release's.
        hook: The hook whose stages are rendered.

    Raises:
        ChartError: A chart failed.
        InvalidRelease: The release is incomplete or inconsistent.
        InvalidName: The folder does not have the name of a release.
        SourceError: The folder cannot be read.
        ValueError: clusteraddon.yaml is not valid.
    """
    release, files = read_release(folder)
    assets = assets_from_files(release, files)
    if assets.problem:
        raise ValueError(assets.problem)
    stages = assets.stages.desired(hook) if assets.stages else ()
    capabilities = Capabilities(kube_version or release.metadata.kubernetes)
    return [obj for _, objects in release_objects(assets, stages, sample, capabilities) for obj in objects]


def remarks(folder: Path) -> list[str]:
    """Returns remarks about objects that are rendered without a cluster. Raises as `render_release` does."""
    if chart_traits(assets_from_files(*read_release(folder))).looks_up:
        return ["the charts call `lookup`, which finds no objects without a cluster"]
    return []


def siblings(folder: Path) -> tuple[str, list[str]]:
    """Returns the folder's parent, without `..` in its path, and the names of the folders in it."""
    parent = folder.absolute().parent.resolve()
    return str(parent), sorted(path.name for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []


def _first(path: Path) -> Object:
    found = load(path)
    if not found:
        raise ValueError(f"{path}: has no object")
    return found[0]
