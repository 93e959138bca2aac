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
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from infra.local_control_plane.binaries import locate
from infra.local_control_plane.cache import locked, partial
from infra.local_control_plane.modules import MODULES, Module
from shared import bounded_yaml

CURRENT, PREVIOUS = "v1.14.0", "v1.13.4"
DOWNLOADS = Path("kubernetes-sigs/cluster-api/releases/download")
TEMPLATES = ("clusterclass-in-memory.yaml", "cluster-template-in-memory.yaml")
"""Files of a release for a Cluster in the memory of docker's manager, which needs no docker."""

_CORE = "sigs.k8s.io/cluster-api"
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_STAGING = re.compile(r"gcr\.io/k8s-staging-cluster-api/(?!capd-)([a-z-]+)")


class Provider(NamedTuple):
    """`file` of a release; `module` and `folders` (the first that exists counts) have its kustomization.

    `kinds` names the CustomResourceDefinitions that a reduced release keeps.
    """

    name: str
    type: str
    label: str
    file: str
    module: str
    folders: tuple[str, ...]
    kinds: tuple[str, ...]


PROVIDERS = (
    Provider(
        name="cluster-api",
        type="CoreProvider",
        label="cluster-api",
        file="core-components.yaml",
        module=_CORE,
        folders=("core/config", "config"),  # before 1.14 it was in the root of its module
        kinds=("clusters.cluster.x-k8s.io", "machinedrainrules.cluster.x-k8s.io"),
    ),
    Provider(
        name="kubeadm",
        type="BootstrapProvider",
        label="bootstrap-kubeadm",
        file="bootstrap-components.yaml",
        module=_CORE,
        folders=("bootstrap/kubeadm/config",),
        kinds=("kubeadmconfigs.bootstrap.cluster.x-k8s.io",),
    ),
    Provider(
        name="kubeadm",
        type="ControlPlaneProvider",
        label="control-plane-kubeadm",
        file="control-plane-components.yaml",
        module=_CORE,
        folders=("controlplane/kubeadm/config",),
        kinds=("kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",),
    ),
    Provider(
        name="docker",
        type="InfrastructureProvider",
        label="infrastructure-docker",
        file="infrastructure-components-development.yaml",
        module=f"{_CORE}/test",
        folders=("infrastructure/docker/config",),
        kinds=("dockerclusters.infrastructure.cluster.x-k8s.io",),
    ),
)


def components(version: str) -> Path:
    """A folder laid out like the downloads of a GitHub host, with the one release `version`.

    So `components(v) / DOWNLOADS / v` has `metadata.yaml`, the `file` of each of `PROVIDERS`, and `TEMPLATES`. It is
    shared: do not write to it. Raises ValueError for a version that is not pinned.
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


def reduced(version: str) -> Path:
    """A folder like that of `components`: each provider has few kinds, with schemas that allow every field.

    An API server works five times longer on the kinds of a whole release. Tests that are about something else than
    the kinds install these.
    """
    whole = components(version)
    target = whole.with_name(f"reduced-{_digest()}")
    with locked(target.parent / ".reduced.lock", f"reduces the components of Cluster API {version}", print):
        if not target.is_dir():
            with partial(target) as part:
                shutil.copytree(whole, part)
                for provider in PROVIDERS:
                    file = part / DOWNLOADS / version / provider.file
                    file.write_text(_reduced(file.read_text(), provider.kinds))
                os.replace(part, target)
    return target


def clusterctl() -> Path:
    """Returns the program, of version `CURRENT`."""
    return locate(["clusterctl"], progress=print)["clusterctl"]


def repository(folder: Path, *versions: str, release: Callable[[str], Path] = components) -> Path:
    """Lay out `versions` in `folder` as a local repository of clusterctl; the result is its configuration file.

    `release` gets the folder of a version: `components` or `reduced`. clusterctl takes a file's place for its meaning:
    <label of the provider>/<version>/<file>.
    """
    for provider in PROVIDERS:
        for version in versions:
            published = release(version) / DOWNLOADS / version
            place = folder / provider.label / version
            place.mkdir(parents=True)
            for name in (provider.file, "metadata.yaml"):
                (place / name).symlink_to(published / name)
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
    """Returns what clusterctl generates for a provider of a repository; `configuration` is from `repository`."""
    kind = f"--{_WORD.sub('-', provider.type.removesuffix('Provider')).lower()}"
    arguments = [kind, f"{provider.name}:{version}", "--target-namespace", namespace, "--config", str(configuration)]
    return _printed(["generate", "provider", *arguments], variables or {}, configuration.parent)


def substituted(text: str, variables: Mapping[str, str], home: Path) -> str:
    """Returns the text with variables replaced by clusterctl. Raises `CalledProcessError` if clusterctl rejects it."""
    return _printed(["generate", "yaml"], variables, home, text)


def run_clusterctl(configuration: Path, kubeconfig: Path, *arguments: str) -> str:
    """Returns the standard output of a command with the repository of `configuration`."""
    files = ["--config", str(configuration), "--kubeconfig", str(kubeconfig)]
    try:
        return _printed([*arguments, *files], {}, configuration.parent)
    except subprocess.CalledProcessError as error:
        raise AssertionError(f"clusterctl {' '.join(arguments)}: {error.stderr}") from error


def _printed(arguments: Sequence[str], variables: Mapping[str, str], home: Path, text: str = "") -> str:
    """Runs clusterctl without a check for newer versions and without settings of the user."""
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
    """Returns a digest of this code: other code renders into another folder."""
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
    for name in TEMPLATES:
        shutil.copyfile(
            module.source(f"{_CORE}/test", print) / "infrastructure/docker/templates" / name, release / name
        )


def _published(components: str, version: str) -> str:
    """Sets the images of a release. docker is never promoted from the staging registry."""
    components = _STAGING.sub(r"registry.k8s.io/cluster-api/\1", components)
    components = re.sub(r"(image: \S+/[a-z-]+):main$", rf"\1:{version}", components, flags=re.M)
    return components.replace("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent")


def _reduced(components: str, kinds: Collection[str]) -> str:
    """Reduces the CRDs; other documents stay as text, since their variables make their YAML ambiguous."""
    documents = []
    for document in components.split("\n---\n"):
        if "\nkind: CustomResourceDefinition\n" in document:
            crd = bounded_yaml.load(document)
            if crd["metadata"]["name"] not in kinds:
                continue
            for version in crd["spec"]["versions"]:
                version["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            document = yaml.safe_dump(crd)
        documents.append(document)
    return "\n---\n".join(documents)
