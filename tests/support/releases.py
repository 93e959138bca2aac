"""Small releases for tests, written to a folder as a release author would."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from shared.kube import Object

STACK = "test-stack-1-36"

HOOK_STAGES = """
  AfterControlPlaneInitialized: &stages
    - {name: cni}
  BeforeClusterUpgrade: *stages
  AfterClusterUpgrade:
    - {name: last}
"""
"""`addonStages` with a chart for all hooks, and one for AfterClusterUpgrade alone."""


def archive(files: Mapping[str, str]) -> bytes:
    """Returns a .tgz of text files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def chart(name: str, templates: Mapping[str, str]) -> bytes:
    files = {f"{name}/Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n"}
    return archive(files | {f"{name}/templates/{file}": text for file, text in templates.items()})


def write_release(
    root: Path,
    version: str,
    objects: list[Object] | None = None,
    *,
    templates: Mapping[str, str] | None = None,
    addon_version: str = "",
    values: str = "",
    addon_chart: bytes | None = None,
    class_templates: Mapping[str, str] | None = None,
    stack: str = STACK,
) -> str:
    """Writes a release folder below `root`; returns the name of its ClusterClass."""
    tag = f"{stack}-{version}"
    addon = addon_version or version
    folder = root / tag.replace(".", "-")
    folder.mkdir(parents=True, exist_ok=True)
    versions = {"clusterStack": version, "kubernetes": "v1.36.3", "components": {"clusterAddon": addon}}
    metadata = {"apiVersion": "metadata.clusterstack.x-k8s.io/v1alpha1", "versions": versions}
    (folder / "metadata.yaml").write_text(yaml.safe_dump(metadata))
    rendered = templates or {"all.yaml": yaml.safe_dump_all(objects or [])}
    data = addon_chart if addon_chart is not None else chart("addons", rendered)
    (folder / f"{stack}-cluster-addon-{addon}.tgz").write_bytes(data)
    (folder / f"{stack}-cluster-class-{version}.tgz").write_bytes(chart("class", class_templates or {"none.yaml": ""}))
    if values:
        (folder / "cluster-addon-values.yaml").write_text(values)
    return tag


def write_stages(
    root: Path,
    version: str,
    config: str,
    charts: Mapping[str, list[Object]],
    *,
    overwrite: Mapping[str, str] | None = None,
    templates: Mapping[str, Mapping[str, str]] | None = None,
) -> str:
    """Writes a release with stages: `config` are its `addonStages`, `charts` the objects of each folder."""
    files: dict[str, str] = {}
    for name in {*charts, *(templates or {})}:
        files[f"{name}/Chart.yaml"] = f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n"
        files[f"{name}/templates/all.yaml"] = yaml.safe_dump_all(charts.get(name, []))
        files |= {f"{name}/templates/{file}": text for file, text in (templates or {}).get(name, {}).items()}
    files |= {f"{name}/overwrite.yaml": text for name, text in (overwrite or {}).items()}
    tag = write_release(root, version, addon_chart=archive(files))
    (root / tag / "clusteraddon.yaml").write_text(
        "apiVersion: clusteraddonconfig.x-k8s.io/v1alpha1\n"
        "clusterAddonVersion: clusteraddons.clusterstack.x-k8s.io/v1alpha1\n"
        f"addonStages:\n{config}"
    )
    return tag


def config_map(name: str, value: str = "1", namespace: str = "default") -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": value}}
