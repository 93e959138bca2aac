"""Options that several `provider` commands share, and their parsing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ..failures import Failure

if TYPE_CHECKING:
    from shared.kube import Client, Object

    from .requests import ProviderRequest, ProviderSettings

_AGAIN = "May be repeated."
Core = Annotated[str, typer.Option("--core", metavar="P", help="The core provider.", show_default=False)]
Bootstrap = Annotated[list[str] | None, typer.Option("--bootstrap", "-b", metavar="P", help=_AGAIN)]
ControlPlane = Annotated[list[str] | None, typer.Option("--control-plane", "-c", metavar="P", help=_AGAIN)]
Infrastructure = Annotated[list[str] | None, typer.Option("--infrastructure", "-i", metavar="P", help=_AGAIN)]
Ipam = Annotated[list[str] | None, typer.Option("--ipam", metavar="P", help=_AGAIN)]
RuntimeExtension = Annotated[list[str] | None, typer.Option("--runtime-extension", metavar="P", help=_AGAIN)]
Addon = Annotated[list[str] | None, typer.Option("--addon", metavar="P", help=_AGAIN)]
Annotate = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Annotation of the providers that are created. May be repeated."),
]
TargetNamespace = Annotated[str, typer.Option("--target-namespace", hidden=True)]
"""An option of clusterctl; the commands reject it and name the form to use here."""
Wait = Annotated[
    bool | None,
    typer.Option(
        "--wait/--no-wait",
        help="Wait until all are ready (default: if functions run that install them).",
        show_default=False,
    ),
]
Timeout = Annotated[float, typer.Option(help="Seconds to wait.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the manifests instead.")]
ExitCode = Annotated[
    bool,
    typer.Option("--exit-code", help="Exit with 3 if something would change. A failure exits with 4 in any case."),
]
ConfigSecret = Annotated[str, typer.Option(help="Secret with variables and credentials: name[:namespace].")]


def select_providers(client: Client, kind: str, name: str) -> list[Object]:
    """Returns the provider of this kind and name; with an empty name all of the kind, with kind `all` all providers.

    Raises:
        Failure: There is no such provider.
    """
    from shared.kube import key_of

    from .requests import parse_kind
    from .status import list_providers

    found = list_providers(client)
    if kind == "all":
        return found
    wanted = parse_kind(kind).kind
    chosen = [one for one in found if one["kind"] == wanted and key_of(one).name == (name or key_of(one).name)]
    if not chosen:
        which = f" {name}" if name else ""
        raise Failure(f"the cluster has no {wanted}{which}; `capi-functions provider list` lists its providers")
    return chosen


def parse_settings(secret: str, annotations: Sequence[str] | None, target_namespace: str) -> ProviderSettings:
    """Parses the options that apply to all created providers.

    Raises:
        Failure: An option has another form, or is one of clusterctl's that is not supported.
    """
    from .requests import ProviderSettings, parse_annotations, parse_secret

    if target_namespace:
        raise Failure("--target-namespace: give each provider its namespace, as in `-i docker:capd-system:v1.14.0`")
    return ProviderSettings(parse_secret(secret), parse_annotations(annotations or ()))


def parse_requests(core: str, *others: Sequence[str] | None) -> list[ProviderRequest]:
    """Parses the options for providers; `others` are those after `--core`, in the order of `KINDS`.

    Raises:
        Failure: An option has another form.
    """
    from shared.api.provider import KINDS

    from .requests import parse_request

    texts = ([core] if core else [], *others)
    return [parse_request(kind, text) for kind, given in zip(KINDS, texts, strict=True) for text in given or ()]
