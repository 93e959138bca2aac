"""Options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Dir = Annotated[Path, typer.Option("--dir", "-d", help="Folder of the run: data, logs, kubeconfig.")]
DEFAULT_DIR = Path(".capi-functions")

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="The management cluster (default: that of the run in --dir; without one, $KUBECONFIG).", show_default=False
    ),
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the Cluster.")]
ClusterName = Annotated[str, typer.Option("--cluster", help="Name of the Cluster.")]


class Format(StrEnum):
    text = "text"
    json = "json"


Output = Annotated[Format, typer.Option("--output", "-o", help="For people, or for programs.")]


class Hook(StrEnum):
    """As in a clusteraddon.yaml."""

    FIRST = "AfterControlPlaneInitialized"
    UPGRADE = "BeforeClusterUpgrade"
    UPGRADED = "AfterClusterUpgrade"


Json = Annotated[bool, typer.Option("--json", help="The same as -o json.")]
