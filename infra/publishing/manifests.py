"""Writes one file for each way to install the project, with the image that its pods run."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import yaml

PROJECT = Path(__file__).parents[2]
MANIFESTS = PROJECT / "infra/manifests"
CHART = PROJECT / "infra/chart"

KUSTOMIZATIONS = {
    "install": ("single",),
    "install-beside-core": ("profiles/addons-providers-kubeconfig/single",),
    "install-forwarder": ("crds", "crds/cluster", "forwarder"),
    "install-sources": ("crds", "crds/cluster", "sources"),
    "install-serving": ("crds", "crds/cluster", "serving"),
    "crds": ("crds",),
    "crds-cluster": ("crds/cluster",),
}
"""The kustomizations of a file, by its name without `.yaml`."""


def kustomized(folders: tuple[str, ...], image: str, version: str, kubectl: Path) -> bytes:
    """Returns the objects of kustomizations below infra/manifests, whose pods run `image` with the tag `version`.

    Raises CalledProcessError.
    """
    tagged = {"name": "capi-functions", "newName": image, "newTag": version}
    with tempfile.TemporaryDirectory(dir=MANIFESTS, prefix=".overlay-") as overlay:
        Path(overlay, "kustomization.yaml").write_text(
            yaml.safe_dump({"resources": [f"../{folder}" for folder in folders], "images": [tagged]})
        )
        return _run(kubectl, "kustomize", overlay)


def direct(image: str, version: str, helm: Path) -> bytes:
    """Returns the objects of the chart with `mode: direct`, and their namespace. Raises CalledProcessError."""
    values = {"mode": "direct", "profile": "all", "image.repository": image, "image.tag": version}
    options = [part for name, value in values.items() for part in ("--set-string", f"{name}={value}")]
    rendered = _run(helm, "template", "capi-functions", str(CHART), "--namespace=capi-functions", *options)
    return (MANIFESTS / "base/namespace.yaml").read_bytes() + rendered


def _run(program: Path, *arguments: str) -> bytes:
    return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE).stdout
