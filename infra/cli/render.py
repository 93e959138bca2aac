"""`render`: the addon manifests of a release for one cluster, from files alone."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from shared import charts
from shared.kube import Object
from shared.releases.naming import ReleaseName
from shared.releases.release import METADATA, Blob, assemble

from . import manifests


def render(
    folder: Path,
    cluster: Path,
    *,
    control_plane: Path | None = None,
    infra: Path | None = None,
    kube_version: str | None = None,
) -> list[Object]:
    """Like `render_release`, with the objects read from files."""
    return render_release(
        folder,
        _object(cluster, "Cluster"),
        _object(control_plane) if control_plane else None,
        _object(infra) if infra else None,
        kube_version,
    )


def render_release(
    folder: Path, cluster: Object, control_plane: Object | None, infra: Object | None, kube_version: str | None
) -> list[Object]:
    """Raises `ChartError`, `InvalidRelease`, `InvalidName`, `OSError` or `ValueError` that names the file."""
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    blobs = {name: Blob(hashlib.sha256(data).hexdigest(), len(data)) for name, data in files.items()}
    release = assemble(ReleaseName.parse(folder.resolve().name), blobs, files.get(METADATA))
    context: dict[str, Any] = {"Cluster": cluster}
    if control_plane is not None:
        context["ControlPlane"] = control_plane
    if infra is not None:
        context["InfraCluster"] = infra
    template = files[release.values_template].decode() if release.values_template else None
    return charts.render_addon(
        files[release.addon_chart],
        template,
        context,
        chart_name=release.addon_chart,
        kube_version=kube_version or release.metadata.kubernetes,
    )


def _object(path: Path, kind: str = "") -> Object:
    """The first object of `kind` in a file of YAML documents."""
    documents = manifests.load(path)
    for document in documents:
        if not kind or document.get("kind") == kind:
            return document
    raise ValueError(f"{path}: no {kind or 'object'} in it")
