"""Options that several `provider` commands share, and their parsing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.cli import options
from infra.cli.options import TargetOptions
from infra.operations.failure import Failure
from infra.operations.management_cluster import ManagementCluster

if TYPE_CHECKING:
    from infra.operations.providers.requests import ProviderRequest, ProviderSettings

Annotate = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Annotation of the providers that are created. May be repeated."),
]
TargetNamespace = Annotated[str, typer.Option("--target-namespace", hidden=True)]
"""An option of clusterctl. The commands reject it with a hint on the replacement."""
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the manifests instead.")]
ExitCode = Annotated[
    bool,
    typer.Option("--exit-code", help="Exit with 3 if something would change. A failure exits with 4 in any case."),
]
ConfigSecret = Annotated[str, typer.Option(help="Secret with variables and credentials: name[:namespace].")]
_WAIT = "Wait until it is done (default: if functions run that do it)."


def _named(*names: str) -> Any:
    return typer.Option(*names, metavar="P", help="May be repeated.")


@dataclass(frozen=True)
class ProviderOptions:
    """The options that name providers, in the order of `KINDS`."""

    core: Annotated[str, typer.Option("--core", metavar="P", help="The core provider.", show_default=False)] = ""
    bootstrap: Annotated[list[str] | None, _named("--bootstrap", "-b")] = None
    control_plane: Annotated[list[str] | None, _named("--control-plane", "-c")] = None
    infrastructure: Annotated[list[str] | None, _named("--infrastructure", "-i")] = None
    ipam: Annotated[list[str] | None, _named("--ipam")] = None
    runtime_extension: Annotated[list[str] | None, _named("--runtime-extension")] = None
    addon: Annotated[list[str] | None, _named("--addon")] = None

    def requests(self) -> list[ProviderRequest]:
        """Returns the named providers. Raises `Failure` if an option is malformed."""
        from infra.operations.providers.requests import parse_request
        from shared.api.provider import KINDS

        core, *others = (getattr(self, field.name) for field in fields(self))
        texts = ([core] if core else [], *others)
        return [parse_request(kind, text) for kind, values in zip(KINDS, texts, strict=True) for text in values or ()]


@dataclass(frozen=True)
class WaitOptions:
    """The options that make a command wait for functions."""

    wait: Annotated[bool | None, typer.Option("--wait/--no-wait", help=_WAIT, show_default=False)] = None
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 300.0

    @property
    def within(self) -> float | None:
        """Seconds to wait; None for a command that must not wait."""
        return None if self.wait is False else self.timeout

    def obstacle(self, connection: ManagementCluster) -> str:
        """Returns why functions would not fulfil the request; empty if they would, and for `--wait`."""
        from infra.operations.providers.deployed_functions import why_not_reconciled

        return "" if self.wait else why_not_reconciled(connection)


@dataclass(frozen=True)
class ClusterctlWaitOptions(WaitOptions):
    """`WaitOptions` with clusterctl's names as well."""

    wait: Annotated[
        bool | None, typer.Option("--wait/--no-wait", "--wait-providers", help=_WAIT, show_default=False)
    ] = None
    timeout: Annotated[float, typer.Option("--timeout", "--wait-provider-timeout", help="Seconds to wait.")] = 300.0


@dataclass(frozen=True)
class ClusterctlTargetOptions(TargetOptions):
    """`TargetOptions` with clusterctl's name of the context as well."""

    context: Annotated[
        str, typer.Option("--context", "--kubeconfig-context", help=options.CONTEXT, show_default=False)
    ] = ""


def parse_settings(secret: str, annotations: Sequence[str] | None, target_namespace: str) -> ProviderSettings:
    """Parses the options that apply to all created providers.

    Raises:
        Failure: An option is malformed, or it is an option of clusterctl that is not supported.
    """
    from infra.operations.providers.requests import ProviderSettings, parse_annotations, parse_secret

    if target_namespace:
        raise Failure("--target-namespace: give each provider its namespace, as in `-i docker:capd-system:v1.14.0`")
    return ProviderSettings(parse_secret(secret), parse_annotations(annotations or ()))
