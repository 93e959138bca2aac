"""Options that several commands about providers have, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..failures import Failure
from ..runs import kubeconfig_of

if TYPE_CHECKING:
    from shared.kube import Client, Object

    from .requests import Wanted

_FORM = "name[:namespace[:version]]"
Core = Annotated[str, typer.Option("--core", help="The core provider: cluster-api[:namespace[:version]].")]
Bootstrap = Annotated[list[str] | None, typer.Option("--bootstrap", "-b", help=f"{_FORM}; may be repeated.")]
ControlPlane = Annotated[list[str] | None, typer.Option("--control-plane", "-c", help=f"{_FORM}; may be repeated.")]
Infrastructure = Annotated[list[str] | None, typer.Option("--infrastructure", "-i", help=f"{_FORM}; may be repeated.")]
Ipam = Annotated[list[str] | None, typer.Option("--ipam", help=f"{_FORM}; may be repeated.")]
RuntimeExtension = Annotated[list[str] | None, typer.Option("--runtime-extension", help=f"{_FORM}; may be repeated.")]
Addon = Annotated[list[str] | None, typer.Option("--addon", help=f"{_FORM}; may be repeated.")]
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
    bool, typer.Option("--exit-code", help="Exit with 3 if it would change something, 4 if it would not get through.")
]
ConfigSecret = Annotated[
    str, typer.Option(help="Secret with variables and credentials: name[:namespace], by default beside each provider.")
]


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


def parsed(core: str, *others: Sequence[str] | None) -> list[Wanted]:
    """The providers that the options of this module name; `others` in the order of the kinds. Raises `Failure`."""
    from shared.api.provider import KINDS

    from .requests import parse

    texts = ([core] if core else [], *others)
    return [parse(kind, text) for kind, those in zip(KINDS, texts, strict=True) for text in those or ()]


def management(directory: Path, kubeconfig: Path | None) -> Client:
    from shared.kube import connect

    return connect.from_kubeconfig(str(kubeconfig_of(directory, kubeconfig)))
