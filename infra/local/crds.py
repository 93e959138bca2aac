"""Our CRDs, put into a management cluster that has none."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml

from shared.effects import MANAGER
from shared.kube import Client, Object
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
