"""Options that several commands about providers have, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ..failures import Failure

if TYPE_CHECKING:
    from shared.kube import Client, Object

    from .requests import Settings, Wanted

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
"""clusterctl's; who gives it is told the form that is taken here."""
Wait = Annotated[
    bool | None,
    typer.Option(
        "--wait/--no-wait",
        help="Wait until all are ready (default: where functions run that do it).",
        show_default=False,
    ),
]
Timeout = Annotated[float, typer.Option(help="Seconds to wait.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the manifests instead.")]
ExitCode = Annotated[
    bool,
    typer.Option("--exit-code", help="Exit with 3 if it would change something. 4, that it would fail, needs none."),
]
ConfigSecret = Annotated[str, typer.Option(help="Secret with variables and credentials: name[:namespace].")]


def chosen(client: Client, kind: str, name: str) -> list[Object]:
    """The one provider of this kind and name, or all. Raises `Failure`."""
    from shared.kube import key_of

    from .requests import kind_named
    from .standing import providers

    found = providers(client)
    if kind == "all":
        return found
    wanted = kind_named(kind).kind
    chosen = [one for one in found if one["kind"] == wanted and key_of(one).name == (name or key_of(one).name)]
    if not chosen:
        called = f" {name}" if name else ""
        raise Failure(f"there is no {wanted}{called}; `capi-functions provider list` shows what there is")
    return chosen


def settings(secret: str, annotations: Sequence[str] | None, target_namespace: str) -> Settings:
    """Raises `Failure`."""
    from .requests import Settings, annotations_named, secret_named

    if target_namespace:
        raise Failure("--target-namespace: each provider is given its own, as in `-i docker:capd-system:v1.14.0`")
    return Settings(secret_named(secret), annotations_named(annotations or ()))


def parsed(core: str, *others: Sequence[str] | None) -> list[Wanted]:
    """The providers that the options of this module name; `others` in the order of the kinds. Raises `Failure`."""
    from shared.api.provider import KINDS

    from .requests import parse

    texts = ([core] if core else [], *others)
    return [parse(kind, text) for kind, those in zip(KINDS, texts, strict=True) for text in those or ()]
