"""Options of several commands."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.operations.failure import Failure
from infra.operations.management_cluster import ManagementCluster, open_management_cluster
from shared import profiles

if TYPE_CHECKING:
    from shared.download.access import Access

Dir = Annotated[Path, typer.Option("--dir", "-d", help="Folder of the run, with its data, logs and kubeconfig.")]

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
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="The objects of all namespaces.")]
Selector = Annotated[
    str,
    typer.Option(
        "--selector", "-l", metavar="SELECTOR", help="Objects with these labels, as in `env=prod`.", show_default=False
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace of the Cluster (default: the context's).", show_default=False),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
EventsTo = Annotated[
    str,
    typer.Option("--to", help="URL that accepts events (default: the run's, else $K_SINK).", show_default=False),
]
Watch = Annotated[
    bool,
    typer.Option(
        "--watch", "-w", help="Follow changes until Ctrl-C: live on a terminal, a line for each change in a pipe."
    ),
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


KIND = "--kind"
Kind = Annotated[
    bool,
    typer.Option(
        KIND,
        help="Create KINDClusters of the runtime kind with docker, podman or nerdctl of this machine. Their nodes are "
        "privileged containers, so that whoever may create KINDClusters is root on this machine.",
    ),
]


class Format(StrEnum):
    """The format of the output."""

    text = "text"
    json = "json"


Output = Annotated[Format, typer.Option("--output", "-o", help="Output format: text for people, json for programs.")]


class ListFormat(StrEnum):
    """The format of a list of objects."""

    text = "text"
    wide = "wide"
    json = "json"
    yaml = "yaml"
    name = "name"


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


def require_url(url: str) -> str:
    """Returns the URL of `EventsTo`. Raises `Failure` if there is none."""
    if not url:
        raise Failure(
            "no URL to send events to: name one with --to, such as the URL of the Broker or forwarder, "
            "or run this command in a pod of the functions"
        )
    return url


Json = Annotated[bool, typer.Option("--json", help="Same as -o json.")]


@dataclass(frozen=True)
class FormatOptions:
    """The format of a command's output."""

    output: Output = Format.text
    as_json: Json = False

    @property
    def json(self) -> bool:
        """Whether the output is JSON."""
        return self.as_json or self.output is Format.json


@dataclass(frozen=True)
class TargetOptions:
    """The options that name the management cluster of a command."""

    directory: RunDir = None
    kubeconfig: Kubeconfig = None
    context: Context = ""

    def open(self) -> AbstractContextManager[ManagementCluster]:
        """Connects to the cluster, as `open_management_cluster` does."""
        return open_management_cluster(self.directory, self.kubeconfig, self.context)


@dataclass(frozen=True)
class RegistryOptions:
    """The options for a registry that is written to."""

    username: Annotated[str, typer.Option(help="User of the registry.", envvar="OCI_USERNAME")] = ""
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input instead of $OCI_PASSWORD.")
    ] = False
    ca_file: Annotated[
        Path | None, typer.Option(help="Certificates (PEM) to trust beside the system's.", exists=True, dir_okay=False)
    ] = None

    def access(self) -> Access:
        """Returns the credentials. Raises `OSError` if the file cannot be read."""
        from shared.download.access import Access

        password = sys.stdin.readline().rstrip("\r\n") if self.password_stdin else os.environ.get("OCI_PASSWORD", "")
        return Access(username=self.username, password=password, ca=self.ca_file.read_text() if self.ca_file else "")
