"""The commands about the providers of a management cluster."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from .failures import Failure, failures
from .options import DEFAULT_DIR, Dir, Format, Kubeconfig, Output
from .output import Timeline, err, out
from .runs import kubeconfig_of, running, settings_of
from .text import plain

if TYPE_CHECKING:
    from shared.kube import Client, Object

    from .provider_requests import Wanted

_FORM = "name[:namespace[:version]]"
Core = Annotated[str, typer.Option("--core", help="The core provider: cluster-api[:namespace[:version]].")]
Bootstrap = Annotated[list[str] | None, typer.Option("--bootstrap", "-b", help=f"{_FORM}; may be repeated.")]
ControlPlane = Annotated[list[str] | None, typer.Option("--control-plane", "-c", help=f"{_FORM}; may be repeated.")]
Infrastructure = Annotated[list[str] | None, typer.Option("--infrastructure", "-i", help=f"{_FORM}; may be repeated.")]
Ipam = Annotated[list[str] | None, typer.Option("--ipam", help=f"{_FORM}; may be repeated.")]
RuntimeExtension = Annotated[list[str] | None, typer.Option("--runtime-extension", help=f"{_FORM}; may be repeated.")]
Addon = Annotated[list[str] | None, typer.Option("--addon", help=f"{_FORM}; may be repeated.")]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="Exit with 3 if it would change something, 4 if it would not get through.")
]
ConfigSecret = Annotated[
    str, typer.Option(help="Secret with variables and credentials: name[:namespace], by default beside each provider.")
]


def init(
    core: Core = "",
    bootstrap: Bootstrap = None,
    control_plane: ControlPlane = None,
    infrastructure: Infrastructure = None,
    ipam: Ipam = None,
    runtime_extension: RuntimeExtension = None,
    addon: Addon = None,
    config_secret: ConfigSecret = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the manifests instead; needs no cluster.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until all are ready.")] = True,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 300.0,
    directory: Dir = DEFAULT_DIR,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Have providers installed, by default the newest. Core, and kubeadm beside an infrastructure, come by themselves.

    A provider that is there already is left alone.
    """
    from . import manifests, provider_init
    from .provider_requests import manifests as asked_for
    from .provider_requests import secret_named

    with failures():
        wanted = _wanted(core, bootstrap, control_plane, infrastructure, ipam, runtime_extension, addon)
        if not wanted:
            raise Failure(
                "no provider is asked for: name one, such as `--infrastructure docker`, or `--core cluster-api`"
            )
        secret = secret_named(config_secret)
        for note in provider_init.unknown(wanted):
            err.print(f"[yellow]note:[/yellow] {escape(plain(note))}")
        if dry_run:
            sys.stdout.write(manifests.dump(asked_for(wanted, secret)))
            return
        client, timeline = _management(directory, kubeconfig), Timeline()
        asked = provider_init.create(client, wanted, secret, timeline.say)
        obstacle = not kubeconfig and not running(directory) and "no functions run here"
        if not wait or obstacle:
            timeline.say(f"asked for{f', not waited for: {obstacle}' if obstacle else ''}")
            return
        provider_init.wait(client, asked, within=timeout, tell=timeline.say)
        timeline.say("all are ready", mark="✔", style="green")


def list_(output: Output = Format.text, directory: Dir = DEFAULT_DIR, kubeconfig: Kubeconfig = None) -> None:
    """List the providers of a cluster: what is installed, what is asked for, and why one is not ready."""
    from .provider_standing import providers, standing, table

    with failures():
        found = [standing(provider) for provider in providers(_management(directory, kubeconfig))]
    if output is Format.json:
        typer.echo(json.dumps([one.dump() for one in found], indent=2))
    elif found:
        for line in table(found):
            out.print(line, markup=False)
    else:
        out.print("there are no providers; `capi-functions provider init --infrastructure docker` has some installed")


def plan(
    kind: Annotated[str, typer.Argument(help="Kind of the provider, such as infrastructure, or `all`.")] = "all",
    name: Annotated[str, typer.Argument(help="Name of the provider.", show_default=False)] = "",
    version: Annotated[
        str, typer.Option(help="The version (default: what is asked for already, else the newest).", show_default=False)
    ] = "",
    output: Output = Format.text,
    exit_code: ExitCode = False,
    directory: Dir = DEFAULT_DIR,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what a version of a provider would change, by dry runs, with what goes of CRDs and comes of rights.

    Without KIND and NAME of all providers. Changes nothing.
    """
    from shared.components.errors import ComponentsError

    from . import provider_plan, provider_text

    with failures(ComponentsError):
        client = _management(directory, kubeconfig)
        chosen = _chosen(client, kind, name)
        if version and not name:
            raise Failure(
                "--version is of one provider: name that, as in `plan infrastructure docker --version v1.2.3`"
            )
        _check_version(version)
        os.environ |= settings_of(directory)
        outlooks = []
        for provider in chosen:
            outlook = provider_plan.plan(client, provider, version)
            outlooks.append(outlook)
            if output is Format.text:
                for line in provider_text.lines(outlook):
                    out.print(line)
        if output is Format.json:
            typer.echo(json.dumps([outlook.dump() for outlook in outlooks], indent=2))
    if exit_code:
        raise typer.Exit(max((outlook.exit_code for outlook in outlooks), default=0))


def _check_version(version: str) -> None:
    from shared.components import versions

    if version and versions.try_parse(version) is None:
        raise Failure(f"--version {version!r} is no version such as v1.2.3")


def _chosen(client: Client, kind: str, name: str) -> list[Object]:
    """The one provider of this kind and name, or all. Raises `Failure`."""
    from shared.kube import key_of

    from .provider_requests import kind_named
    from .provider_standing import providers

    found = providers(client)
    if kind == "all":
        return found
    wanted = kind_named(kind).kind
    chosen = [one for one in found if one["kind"] == wanted and key_of(one).name == (name or key_of(one).name)]
    if not chosen:
        called = f" {name}" if name else ""
        raise Failure(f"there is no {wanted}{called}; `capi-functions provider list` shows what there is")
    return chosen


def _wanted(core: str, *others: Sequence[str] | None) -> list[Wanted]:
    """`others` in the order of the kinds."""
    from shared.api.provider import KINDS

    from .provider_requests import complete, parse

    texts = ([core] if core else [], *others)
    return complete([parse(kind, text) for kind, those in zip(KINDS, texts, strict=True) for text in those or ()])


def _management(directory: Path, kubeconfig: Path | None) -> Client:
    from shared.kube import connect

    return connect.from_kubeconfig(str(kubeconfig_of(directory, kubeconfig)))


def register(app: typer.Typer) -> None:
    app.command()(init)
    app.command("list")(list_)
    app.command()(plan)
