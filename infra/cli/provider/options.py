"""Options that several `provider` commands share, and their parsing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ..failures import Failure

if TYPE_CHECKING:
    from shared.kube import Client, Object

    from .requests import ProviderRequest, ProviderSettings

_REPEATABLE = "May be repeated."
Core = Annotated[str, typer.Option("--core", metavar="P", help="The core provider.", show_default=False)]
Bootstrap = Annotated[list[str] | None, typer.Option("--bootstrap", "-b", metavar="P", help=_REPEATABLE)]
ControlPlane = Annotated[list[str] | None, typer.Option("--control-plane", "-c", metavar="P", help=_REPEATABLE)]
Infrastructure = Annotated[list[str] | None, typer.Option("--infrastructure", "-i", metavar="P", help=_REPEATABLE)]
Ipam = Annotated[list[str] | None, typer.Option("--ipam", metavar="P", help=_REPEATABLE)]
RuntimeExtension = Annotated[list[str] | None, typer.Option("--runtime-extension", metavar="P", help=_REPEATABLE)]
Addon = Annotated[list[str] | None, typer.Option("--addon", metavar="P", help=_REPEATABLE)]
Annotate = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Annotation of the providers that are created. May be repeated."),
]
TargetNamespace = Annotated[str, typer.Option("--target-namespace", hidden=True)]
"""An option of clusterctl. The commands reject it with a hint on what to use instead."""
_WAIT = "Wait until it is done (default: if functions run that do it)."
Wait = Annotated[bool | None, typer.Option("--wait/--no-wait", help=_WAIT, show_default=False)]
Timeout = Annotated[float, typer.Option(help="Seconds to wait.")]
ClusterctlWait = Annotated[
    bool | None, typer.Option("--wait/--no-wait", "--wait-providers", help=_WAIT, show_default=False)
]
ClusterctlTimeout = Annotated[float, typer.Option("--timeout", "--wait-provider-timeout", help="Seconds to wait.")]
ClusterctlContext = Annotated[
    str,
    typer.Option(
        "--context",
        "--kubeconfig-context",
        help="Context in the kubeconfig (default: its current context).",
        show_default=False,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the manifests instead.")]
ExitCode = Annotated[
    bool,
    typer.Option("--exit-code", help="Exit with 3 if something would change. A failure exits with 4 in any case."),
]
ConfigSecret = Annotated[str, typer.Option(help="Secret with variables and credentials: name[:namespace].")]


def select_providers(client: Client, kind: str, name: str) -> list[Object]:
    """Returns the providers of a kind and name.

    Args:
        client: The client of the management cluster.
        kind: A kind such as `infrastructure`, or `all`; then `name` is ignored.
        name: The name of the provider; empty for all of the kind.

    Raises:
        Failure: There is no such provider.
    """
    from shared.kube import key_of

    from .requests import parse_kind
    from .status import list_providers

    providers = list_providers(client)
    if kind == "all":
        return providers
    api_kind = parse_kind(kind).kind
    selected = [
        provider for provider in providers if provider["kind"] == api_kind and name in ("", key_of(provider).name)
    ]
    if not selected:
        raise Failure(
            f"the cluster has no {f'{api_kind} {name}'.rstrip()}; `capi-functions provider list` lists its providers"
        )
    return selected


def parse_settings(secret: str, annotations: Sequence[str] | None, target_namespace: str) -> ProviderSettings:
    """Parses the options that apply to all created providers.

    Raises:
        Failure: An option is malformed, or it is an option of clusterctl that is not supported.
    """
    from .requests import ProviderSettings, parse_annotations, parse_secret

    if target_namespace:
        raise Failure("--target-namespace: give each provider its namespace, as in `-i docker:capd-system:v1.14.0`")
    return ProviderSettings(parse_secret(secret), parse_annotations(annotations or ()))


def parse_requests(core: str, *others: Sequence[str] | None) -> list[ProviderRequest]:
    """Parses the options that name providers; `others` has those after `--core`, in the order of `KINDS`.

    Raises:
        Failure: An option is malformed.
    """
    from shared.api.provider import KINDS

    from .requests import parse_request

    texts = ([core] if core else [], *others)
    return [parse_request(kind, text) for kind, values in zip(KINDS, texts, strict=True) for text in values or ()]
