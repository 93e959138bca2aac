"""Our CRDs, put into a management cluster that has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from shared.api.provider import PROVIDER_LABEL
from shared.effects import MANAGER
from shared.kube import Client, Key, Object, dig
from shared.kube.crds import CRD, await_established

FOLDER = Path(__file__).parents[1] / "crds"


def load(folder: Path = FOLDER) -> list[Object]:
    documents = (doc for file in sorted(folder.glob("*.yaml")) for doc in yaml.safe_load_all(file.read_text()))
    return [doc for doc in documents if doc and doc.get("kind") == CRD.kind]


def install(client: Client, crds: Iterable[Object]) -> None:
    """Creates or updates, then waits until each is served."""
    crds = list(crds)
    for crd in crds:
        client.apply(CRD, crd, manager=MANAGER)
    for crd in crds:
        await_established(client, crd["metadata"]["name"])


def install_missing(client: Client, crds: Iterable[Object]) -> dict[str, str]:
    """Like `install`, but leaves alone what others have installed since, such as Cluster API's own definition of
    Cluster. Returns the name of each that was left alone, with the reason."""
    left: dict[str, str] = {}
    ours = []
    for crd in crds:
        name = crd["metadata"]["name"]
        live = client.find(CRD, Key("", name))
        if live is not None and (reason := not_ours(live, crd)):
            left[name] = reason
        else:
            ours.append(crd)
    install(client, ours)
    return left


def not_ours(live: Mapping[str, Any], crd: Mapping[str, Any]) -> str:
    """Why `crd` must not be applied over the definition that is there; empty where it is of an earlier run."""
    if provider := dig(live, ("metadata", "labels", PROVIDER_LABEL)):
        return f"provider {provider} has brought it"
    others = {
        entry.get("manager", "")
        for entry in dig(live, "metadata.managedFields", [])
        if entry.get("manager") != MANAGER and not entry.get("subresource") and "f:spec" in entry.get("fieldsV1", {})
    }
    if others:
        return f"{', '.join(sorted(others))} has written it"
    has = {version["name"] for version in dig(live, "spec.versions", [])}
    if lost := has - {version["name"] for version in dig(crd, "spec.versions", [])}:
        return f"it has {', '.join(sorted(lost))}, too, and may be newer"
    return ""
