"""Installs the CRDs of this project in a management cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shared import bounded_yaml
from shared.api.provider import PROVIDER_LABEL
from shared.kube import MANAGER, Client, Key, Object, dig
from shared.kube.crds import CRD, definitions, install_definitions
from shared.settings import NAMESPACE

_HELM = "helm"
FOLDER = Path(__file__).parents[1] / "manifests" / "crds"


def load(folder: Path = FOLDER) -> list[Object]:
    """Returns the CRDs in the YAML files of a folder and of the folders in it."""
    return [
        crd for file in sorted(folder.rglob("*.yaml")) for crd in definitions(bounded_yaml.load_all(file.read_text()))
    ]


def install(client: Client, crds: Iterable[Object], *, manager: str = MANAGER) -> None:
    """Applies CRDs, and waits until the API server serves each of them. Raises `ApiError` or `TimeoutError`."""
    install_definitions(client, list(crds), manager=manager)


def install_for_helm(client: Client, crds: Iterable[Object]) -> None:
    """Installs CRDs like `install`, so that a release of our chart adopts and upgrades them.

    The documentation installs this release. Rule: Helm's documentation, "helm install", option `--take-ownership`: Helm
    adopts objects with its label and the annotations of the release.
    """
    install(client, map(_of_release, crds), manager=_HELM)  # Helm's field manager: its upgrades find no conflict


def install_missing(client: Client, crds: Iterable[Object]) -> dict[str, str]:
    """Installs CRDs like `install`, but keeps live CRDs that others have installed, or that may be newer.

    Returns why CRDs were skipped, by the name of the CRD. Raises `ApiError` or `TimeoutError`.
    """
    skipped: dict[str, str] = {}
    ours = []
    for crd in crds:
        name = crd["metadata"]["name"]
        live = client.find(CRD, Key("", name))
        if live is not None and (reason := reason_to_keep(live, crd)):
            skipped[name] = reason
        else:
            ours.append(crd)
    install(client, ours)
    return skipped


def reason_to_keep(live: Mapping[str, Any], crd: Mapping[str, Any]) -> str:
    """Returns why `crd` must not replace the `live` definition; empty if it may.

    It may if an earlier run installed the live definition, with no other versions than `crd` has.
    """
    if provider := dig(live, ("metadata", "labels", PROVIDER_LABEL)):
        return f"provider {provider} has installed it"
    others = {
        entry.get("manager", "")
        for entry in dig(live, "metadata.managedFields", [])
        if entry.get("manager") != MANAGER and not entry.get("subresource") and "f:spec" in entry.get("fieldsV1", {})
    }
    if others:
        return f"{', '.join(sorted(others))} has written it"
    has = {version["name"] for version in dig(live, "spec.versions", [])}
    if lost := has - {version["name"] for version in dig(crd, "spec.versions", [])}:
        return f"it has more versions ({', '.join(sorted(lost))}), so it may be newer"
    return ""


def _of_release(crd: Object) -> Object:
    metadata = crd["metadata"]
    release = {"meta.helm.sh/release-name": NAMESPACE, "meta.helm.sh/release-namespace": NAMESPACE}
    labels = {**metadata.get("labels", {}), "app.kubernetes.io/managed-by": "Helm"}
    annotations = {**metadata.get("annotations", {}), **release}
    return {**crd, "metadata": {**metadata, "labels": labels, "annotations": annotations}}
