"""Options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Dir = Annotated[Path, typer.Option("--dir", "-d", help="Folder of the run: data, logs, kubeconfig.")]
DEFAULT_DIR = Path(".capi-functions")

RunDir = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        "-d",
        help="Ask the run in this folder (default: .capi-functions, if one runs there and $KUBECONFIG is not set).",
        show_default=False,
    ),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="The management cluster (default: $KUBECONFIG; without it the run in --dir, then ~/.kube/config).",
        show_default=False,
    ),
]
Context = Annotated[
    str, typer.Option("--context", help="Context of the kubeconfig (default: its current one).", show_default=False)
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace of the Cluster (default: the context's).", show_default=False),
]
ClusterName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the Cluster.", show_default=False)]
ClusterOption = Annotated[str, typer.Option("--cluster", help="The same as NAME.", show_default=False)]


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
