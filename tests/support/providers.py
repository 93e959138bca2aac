"""The real providers of Cluster API (core, kubeadm bootstrap and control plane, docker) as their releases publish them.

They are rendered from the pinned source in infra/binaries/capi-*, once, into the cache of the executables.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from infra.local_control_plane.binaries import locate
from infra.local_control_plane.cache import locked, partial
from infra.local_control_plane.modules import MODULES, Module

CURRENT, PREVIOUS = "v1.14.0", "v1.13.4"
DOWNLOADS = Path("kubernetes-sigs/cluster-api/releases/download")

_CORE = "sigs.k8s.io/cluster-api"
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
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


def components(version: str) -> Path:
    """A folder laid out like the downloads of a GitHub host, with the one release `version`.

    So `components(v) / DOWNLOADS / v` has `metadata.yaml` and the `file` of each of `PROVIDERS`. It is shared: do
    not write to it. Raises ValueError for a version that is not pinned.
    """
    module = _module(version)
    target = module.cache / f"components-{_digest()}"
    module.cache.mkdir(parents=True, exist_ok=True)
    with locked(module.cache / ".components.lock", f"renders the components of Cluster API {version}", print):
        if not target.is_dir():
            with partial(target) as part:
                _render(module, part / DOWNLOADS / version)
                os.replace(part, target)
    return target


def clusterctl() -> Path:
    """The program, of version `CURRENT`."""
    return locate(["clusterctl"], progress=print)["clusterctl"]


def repository(folder: Path, *versions: str) -> Path:
    """Lay out `versions` in `folder` as a local repository of clusterctl; the result is its configuration file.

    clusterctl takes a file's place for its meaning: <label of the provider>/<version>/<file>.
    """
    for provider in PROVIDERS:
        for version in versions:
            release = components(version) / DOWNLOADS / version
            place = folder / provider.label / version
            place.mkdir(parents=True)
            for name in (provider.file, "metadata.yaml"):
                (place / name).symlink_to(release / name)
    configuration = folder / "clusterctl.yaml"
    providers = [
        {
            "name": provider.name,
            "type": provider.type,
            "url": f"file://{folder}/{provider.label}/{versions[-1]}/{provider.file}",
        }
        for provider in PROVIDERS
    ]
    configuration.write_text(json.dumps({"providers": providers}))
    return configuration


def generate(
    configuration: Path, provider: Provider, version: str, namespace: str, variables: Mapping[str, str] | None = None
) -> str:
    """What clusterctl generates of a provider in a repository; see there for `configuration`."""
    kind = f"--{_WORD.sub('-', provider.type.removesuffix('Provider')).lower()}"
    arguments = [kind, f"{provider.name}:{version}", "--target-namespace", namespace, "--config", str(configuration)]
    return _printed(["generate", "provider", *arguments], variables or {}, configuration.parent)


def substituted(text: str, variables: Mapping[str, str], home: Path) -> str:
    """What clusterctl makes of a text in YAML. Raises `CalledProcessError` where it refuses to."""
    return _printed(["generate", "yaml"], variables, home, text)


def run_clusterctl(configuration: Path, kubeconfig: Path, *arguments: str) -> str:
    """What it prints on stdout; with the repository of `configuration`."""
    files = ["--config", str(configuration), "--kubeconfig", str(kubeconfig)]
    try:
        return _printed([*arguments, *files], {}, configuration.parent)
    except subprocess.CalledProcessError as error:
        raise AssertionError(f"clusterctl {' '.join(arguments)}: {error.stderr}") from error


def _printed(arguments: Sequence[str], variables: Mapping[str, str], home: Path, text: str = "") -> str:
    """By a clusterctl that looks for no newer version of itself, nor for settings of who runs it."""
    folders = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    return subprocess.run(
        [str(clusterctl()), *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        env={**variables, **folders, "CLUSTERCTL_DISABLE_VERSIONCHECK": "true"},
        timeout=60,
    ).stdout


def _module(version: str) -> Module:
    pinned = {module.version: module for module in MODULES if module.module == _CORE}
    if version not in pinned:
        raise ValueError(f"components of Cluster API {version} are not pinned in infra/binaries: {sorted(pinned)}")
    return pinned[version]


def _digest() -> str:
    """Other code renders into another folder."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


def _render(module: Module, release: Path) -> None:
    kubectl = locate(["kubectl"], progress=print)["kubectl"]
    release.mkdir(parents=True)
    for provider in PROVIDERS:
        source = module.source(provider.module, print)
        (kustomization,) = [source / folder for folder in provider.folders if (source / folder).is_dir()][:1]
        print(f"rendering {provider.file} {module.version}")
        command = [str(kubectl), "kustomize", str(kustomization / "default")]
        rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        (release / provider.file).write_text(_published(rendered, module.version))
    shutil.copyfile(module.source(_CORE, print) / "metadata.yaml", release / "metadata.yaml")


def _published(components: str, version: str) -> str:
    """With the images of a release. docker is for development, and is never promoted from the staging registry."""
    components = _STAGING.sub(r"registry.k8s.io/cluster-api/\1", components)
    components = re.sub(r"(image: \S+/[a-z-]+):main$", rf"\1:{version}", components, flags=re.M)
    return components.replace("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent")
