"""The components of Cluster API's providers as their releases publish them, rendered from the sources that are pinned.

A provider's kustomization travels with its module, so that the components match exactly the built manager.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from infra.local_control_plane.binaries import locate
from infra.local_control_plane.cache import Progress, locked, partial
from infra.local_control_plane.modules import MODULES, Module

DOWNLOADS = Path("kubernetes-sigs/cluster-api/releases/download")
TEMPLATES = ("clusterclass-in-memory.yaml", "cluster-template-in-memory.yaml")
"""Files of a release for a Cluster in the memory of docker's manager, which needs no docker."""

_CORE = "sigs.k8s.io/cluster-api"
_STAGING = re.compile(r"gcr\.io/k8s-staging-cluster-api/(?!capd-)([a-z-]+)")


class Provider(NamedTuple):
    """`file` of a release; `module` and `folders` (the first that exists counts) have its kustomization."""

    name: str
    type: str
    label: str
    file: str
    module: str
    folders: tuple[str, ...]


PROVIDERS = (
    Provider(
        name="cluster-api",
        type="CoreProvider",
        label="cluster-api",
        file="core-components.yaml",
        module=_CORE,
        folders=("core/config", "config"),  # before 1.14 it was in the root of its module
    ),
    Provider(
        name="kubeadm",
        type="BootstrapProvider",
        label="bootstrap-kubeadm",
        file="bootstrap-components.yaml",
        module=_CORE,
        folders=("bootstrap/kubeadm/config",),
    ),
    Provider(
        name="kubeadm",
        type="ControlPlaneProvider",
        label="control-plane-kubeadm",
        file="control-plane-components.yaml",
        module=_CORE,
        folders=("controlplane/kubeadm/config",),
    ),
    Provider(
        name="docker",
        type="InfrastructureProvider",
        label="infrastructure-docker",
        file="infrastructure-components-development.yaml",
        module=f"{_CORE}/test",
        folders=("infrastructure/docker/config",),
    ),
)


def components(version: str, progress: Progress) -> Path:
    """Returns a folder laid out like the downloads of a GitHub host, with the one release `version`.

    So `components(v) / DOWNLOADS / v` has `metadata.yaml`, the `file` of each of `PROVIDERS`, and `TEMPLATES`. It is
    in the cache and shared: do not write to it.

    Raises ValueError for a version that is not pinned, SourceNotFound, BinaryNotFound, CalledProcessError or OSError.
    """
    module = _pinning(_CORE, version)
    if module is None:
        known = sorted({each.version for each in MODULES if each.module == _CORE})
        raise ValueError(f"components of Cluster API {version} are not pinned in infra/binaries: {known}")
    target = module.cache / f"components-{_digest()}"
    module.cache.mkdir(parents=True, exist_ok=True)
    with locked(module.cache / ".components.lock", f"renders the components of Cluster API {version}", progress):
        if not target.is_dir():
            with partial(target) as part:
                _render(module, version, part / DOWNLOADS / version, progress)
                os.replace(part, target)
    return target


def rendered(version: str) -> Path | None:
    """Returns the folder of `components` if it is in the cache; None otherwise, or if the version is not pinned."""
    module = _pinning(_CORE, version)
    target = module.cache / f"components-{_digest()}" if module else None
    return target if target and target.is_dir() else None


def _pinning(wanted: str, version: str) -> Module | None:
    """Returns the first module of infra/binaries that requires the Go module `wanted` in this version."""
    return next((module for module in MODULES if module.requirement(wanted) == version), None)


def _digest() -> str:
    """Returns a digest of this code, because other code renders into another folder."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


def _render(module: Module, version: str, release: Path, progress: Progress) -> None:
    kubectl = locate(["kubectl"], progress=progress)["kubectl"]
    release.mkdir(parents=True)
    for provider in PROVIDERS:
        # The version of a manager can change alone, because other providers may not have this version.
        pinning = _pinning(provider.module, version)
        if pinning is None:
            continue
        source = pinning.source(provider.module, progress)
        (kustomization,) = [source / folder for folder in provider.folders if (source / folder).is_dir()][:1]
        progress(f"rendering {provider.file} {version}")
        command = [str(kubectl), "kustomize", str(kustomization / "default")]
        rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        (release / provider.file).write_text(_published(rendered, version))
        if provider.name == "docker":
            for name in TEMPLATES:
                shutil.copyfile(kustomization.with_name("templates") / name, release / name)
    shutil.copyfile(module.source(_CORE, progress) / "metadata.yaml", release / "metadata.yaml")


def _published(components: str, version: str) -> str:
    """Sets the images of a release. docker is never promoted from the staging registry."""
    components = _STAGING.sub(r"registry.k8s.io/cluster-api/\1", components)
    components = re.sub(r"(image: \S+/[a-z-]+):main$", rf"\1:{version}", components, flags=re.M)
    return components.replace("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent")
