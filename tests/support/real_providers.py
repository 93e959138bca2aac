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

import yaml

from infra.local_control_plane.binaries import locate
from infra.local_control_plane.cache import locked, partial
from infra.packaging import components as published
from infra.packaging.components import DOWNLOADS, PROVIDERS, TEMPLATES, Provider
from shared import bounded_yaml
from shared.components.substitute import substitute
from shared.kube import Key, Object, dig

__all__ = ["DOWNLOADS", "PROVIDERS", "Provider"]

CURRENT, PREVIOUS = "v1.14.0", "v1.13.4"

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_KINDS = {
    "cluster-api": ("clusters.cluster.x-k8s.io", "machinedrainrules.cluster.x-k8s.io"),
    "bootstrap-kubeadm": ("kubeadmconfigs.bootstrap.cluster.x-k8s.io",),
    "control-plane-kubeadm": ("kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",),
    "infrastructure-docker": ("dockerclusters.infrastructure.cluster.x-k8s.io",),
}
"""The CustomResourceDefinitions that a reduced release keeps, by the label of the provider."""


def components(version: str) -> Path:
    """The folder of `infra.packaging.components`: do not write to it."""
    return published.components(version, print)


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
                    file.write_text(_reduced(file.read_text(), _KINDS[provider.label]))
                os.replace(part, target)
    return target


def in_memory_cluster(key: Key, version: str) -> tuple[list[Object], list[Object]]:
    """Returns a ClusterClass with its templates, and a Cluster, of the release; its machines start at once.

    They are those of clusterctl's quick start on docker's in-memory backend, with a machine of each kind.
    """
    variables = {
        "CLUSTER_NAME": key.name,
        "NAMESPACE": key.namespace,
        "KUBERNETES_VERSION": version,
        "CONTROL_PLANE_MACHINE_COUNT": "1",
        "WORKER_MACHINE_COUNT": "1",
    }
    texts = [(components(CURRENT) / DOWNLOADS / CURRENT / name).read_text() for name in TEMPLATES]
    templates, cluster = ([obj for obj in bounded_yaml.load_all(substitute(text, variables)) if obj] for text in texts)
    for obj in (*templates, *cluster):
        obj["metadata"].setdefault("namespace", key.namespace)
        for part in dig(obj, "spec.template.spec.backend.inMemory", {}).values():
            part["provisioning"] = {"startupDuration": "0s", "startupJitter": "0"}
    return templates, cluster


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


def _digest() -> str:
    """Returns a digest of the code: other code renders into another folder."""
    code = Path(__file__).read_bytes() + Path(published.__file__).read_bytes()
    return hashlib.sha256(code).hexdigest()[:8]


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
