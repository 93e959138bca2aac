"""`provider`: what operators of a management cluster do."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer
from rich.markup import escape

from ..failures import Failure, failures
from ..options import DEFAULT_DIR, Dir, Format, Kubeconfig, Output
from ..output import Timeline, err, out
from ..runs import running, settings_of
from ..text import plain
from . import render, transfer
from .options import (
    Addon,
    Bootstrap,
    ConfigSecret,
    ControlPlane,
    Core,
    DryRun,
    ExitCode,
    Infrastructure,
    Ipam,
    RuntimeExtension,
    Timeout,
    Wait,
    chosen,
    management,
    parsed,
)


def init(
    core: Core = "",
    bootstrap: Bootstrap = None,
    control_plane: ControlPlane = None,
    infrastructure: Infrastructure = None,
    ipam: Ipam = None,
    runtime_extension: RuntimeExtension = None,
    addon: Addon = None,
    config_secret: ConfigSecret = "",
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: Timeout = 300.0,
    directory: Dir = DEFAULT_DIR,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Have providers installed, by default the newest. Core, and kubeadm beside an infrastructure, come by themselves.

    A provider that is there already is left alone. With --dry-run no cluster is needed.
    """
    from .. import manifests
    from .init import create, follow, unknown
    from .requests import complete, secret_named
    from .requests import manifests as asked_for

    with failures():
        wanted = complete(parsed(core, bootstrap, control_plane, infrastructure, ipam, runtime_extension, addon))
        if not wanted:
            raise Failure(
                "no provider is asked for: name one, such as `--infrastructure docker`, or `--core cluster-api`"
            )
        secret = secret_named(config_secret)
        for note in unknown(wanted):
            err.print(f"[yellow]note:[/yellow] {escape(plain(note))}")
        if dry_run:
            sys.stdout.write(manifests.dump(asked_for(wanted, secret)))
            return
        client, timeline = management(directory, kubeconfig), Timeline()
        asked = create(client, wanted, secret, timeline.say)
        obstacle = "" if kubeconfig or running(directory) else "no functions run here"
        follow(client, asked, timeline, within=timeout if wait else None, obstacle=obstacle)


def list_(output: Output = Format.text, directory: Dir = DEFAULT_DIR, kubeconfig: Kubeconfig = None) -> None:
    """List the providers of a cluster: what is installed, what is asked for, and why one is not ready."""
    from .standing import providers, standing, table

    with failures():
        found = [standing(provider) for provider in providers(management(directory, kubeconfig))]
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

    from .plan import plan as foresee
    from .plan_text import lines

    with failures(ComponentsError):
        client = management(directory, kubeconfig)
        asked = chosen(client, kind, name)
        if version and not name:
            raise Failure(
                "--version is of one provider: name that, as in `plan infrastructure docker --version v1.2.3`"
            )
        _check_version(version)
        os.environ |= settings_of(directory)
        outlooks = []
        for provider in asked:
            outlook = foresee(client, provider, version)
            outlooks.append(outlook)
            if output is Format.text:
                for line in lines(outlook):
                    out.print(line)
        if output is Format.json:
            typer.echo(json.dumps([outlook.dump() for outlook in outlooks], indent=2))
    if exit_code:
        raise typer.Exit(max((outlook.exit_code for outlook in outlooks), default=0))


def _check_version(version: str) -> None:
    from shared.components import versions

    if version and versions.try_parse(version) is None:
        raise Failure(f"--version {version!r} is no version such as v1.2.3")


app = typer.Typer(name="provider", help="Providers of Cluster API.", no_args_is_help=True)
app.command()(render.render)
app.command()(init)
app.command("list")(list_)
app.command()(plan)
app.command()(transfer.adopt)
app.command()(transfer.export)
