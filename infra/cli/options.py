"""Options of several commands."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shared import profiles

Dir = Annotated[Path, typer.Option("--dir", "-d", help="Folder of the run, with its data, logs and kubeconfig.")]
DEFAULT_DIR = Path(".capi-functions")

RunDir = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        "-d",
        help="Use the run in this folder (default: .capi-functions, if it runs and $KUBECONFIG is not set).",
        show_default=False,
    ),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="Kubeconfig of the management cluster "
        "(default: $KUBECONFIG, else the run in .capi-functions, else ~/.kube/config).",
        show_default=False,
    ),
]
CONTEXT = "Context in the kubeconfig (default: its current context)."
Context = Annotated[str, typer.Option("--context", help=CONTEXT, show_default=False)]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace of the Cluster (default: the context's).", show_default=False),
]


def _profiles(text: str) -> str:
    try:
        profiles.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return text


Profile = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="NAME,...",
        callback=_profiles,
        help="Which functions run: "
        + "; ".join(f"{name} ({purpose})" for name, purpose in profiles.NAMES.items())
        + ".",
    ),
]


_BESIDE_CORE = "addons,providers,kubeconfig"
"""The profiles where a Cluster API core runs, whose kubeconfigs are renewed on request."""


def profiles_or_default(given: str, *, beside_core: bool, kind: bool = False) -> str:
    """Returns the profiles in --profile, else those for use beside a Cluster API core, or all.

    With `kind` the functions of these profiles serve KINDClusters.
    """
    chosen = given or (_BESIDE_CORE if beside_core else "all")
    serves = profiles.belongs(profiles.KIND_CLUSTERS, profiles.parse(chosen))
    return chosen if serves or not kind else f"{chosen},kind"


KIND = "--kind"
Kind = Annotated[
    bool,
    typer.Option(
        KIND,
        help="Create KINDClusters of the runtime kind with docker, podman or nerdctl of this machine. Their nodes are "
        "privileged containers, so that whoever may create KINDClusters is root on this machine.",
    ),
]


def nobody_reconciles(chosen: str, *, beside_core: bool) -> str:
    """Returns a warning if no program reconciles the Clusters of a run with these profiles; else an empty text."""
    from functions import catalog

    if beside_core or "cluster" in catalog.triggers(profiles=profiles.parse(chosen)):
        return ""
    return (
        "no Cluster API core runs, and no function of these profiles reconciles Clusters: a new Cluster stays as it "
        "is; --profile standalone, or all, runs the function cluster"
    )


class Format(StrEnum):
    """The format of the output."""

    text = "text"
    json = "json"


Output = Annotated[Format, typer.Option("--output", "-o", help="Output format: text for people, json for programs.")]


class IpFamily(StrEnum):
    """The family of the addresses of a local control plane."""

    ipv4 = "ipv4"
    ipv6 = "ipv6"


Family = Annotated[
    IpFamily | None,
    typer.Option(
        "--ip-family", help="Family of the API server's address and of Services (default: ipv4).", show_default=False
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Use the executables and components of a package (`local package`), and no network for them.",
        exists=True,
        dir_okay=False,
    ),
]
ManagerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--manager",
        metavar="LABEL=SOURCE",
        help="Manager of a provider, such as infrastructure-aws=SOURCE: an executable, a folder with Go sources, or a "
        "Go package and its version (example.com/provider@v1.2.3). Repeatable.",
        show_default=False,
    ),
]
ComponentsOption = Annotated[
    Path | None,
    typer.Option(
        "--components",
        metavar="FOLDER",
        help="Folder with components of providers, such as aws-infrastructure-components.yaml, to use instead of "
        "the components of their releases.",
        exists=True,
        file_okay=False,
        show_default=False,
    ),
]
ApiServerFlags = Annotated[
    list[str] | None,
    typer.Option(
        "--api-server-flag",
        metavar="NAME=VALUE",
        help="Flag of kube-apiserver, in place of its value here. Repeatable.",
        show_default=False,
    ),
]
EtcdFlags = Annotated[
    list[str] | None,
    typer.Option(
        "--etcd-flag",
        metavar="NAME=VALUE",
        help="Flag of etcd, in place of its value here. Repeatable.",
        show_default=False,
    ),
]


class Hook(StrEnum):
    """The hooks of a release with stages, named as in its clusteraddon.yaml."""

    FIRST = "AfterControlPlaneInitialized"
    UPGRADE = "BeforeClusterUpgrade"
    UPGRADED = "AfterClusterUpgrade"


Json = Annotated[bool, typer.Option("--json", help="Same as -o json.")]
