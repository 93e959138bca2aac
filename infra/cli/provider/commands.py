"""`provider`: what operators of a management cluster do."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer

from ..connection import management
from ..failures import Failure, failures
from ..options import Context, Format, Json, Kubeconfig, Output, RunDir
from ..output import out
from . import render, transfer
from .options import (
    Addon,
    Annotate,
    Bootstrap,
    ConfigSecret,
    ControlPlane,
    Core,
    DryRun,
    ExitCode,
    Infrastructure,
    Ipam,
    RuntimeExtension,
    TargetNamespace,
    Timeout,
    Wait,
    chosen,
    parsed,
    settings,
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
    annotate: Annotate = None,
    target_namespace: TargetNamespace = "",
    dry_run: DryRun = False,
    wait: Wait = None,
    timeout: Timeout = 300.0,
    output: Output = Format.text,
    as_json: Json = False,
    directory: RunDir = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Have providers installed, by default the newest. Core, and kubeadm beside an infrastructure, come by themselves.

    P is NAME, NAME:VERSION, NAME:NAMESPACE or NAME:NAMESPACE:VERSION.

    A provider that is there already is left alone. With --dry-run no cluster is needed.
    """
    from .init import carry_out
    from .known import refuse_misspelled, unknown
    from .report import Report
    from .requests import complete, manifests
    from .workers import obstacle, without_pods

    with failures():
        wanted = complete(parsed(core, bootstrap, control_plane, infrastructure, ipam, runtime_extension, addon))
        if not wanted:
            raise Failure(
                "no provider is asked for: name one, such as `--infrastructure docker`, or `--core cluster-api`"
            )
        given = settings(config_secret, annotate, target_namespace)
        report = Report(as_json=as_json or output is Format.json)
        refuse_misspelled(wanted)
        report.note(unknown(wanted))
        if dry_run:
            report.manifests(manifests(wanted, given))
            return
        with management(directory, kubeconfig, context) as asked:
            report.timeline.say(f"management cluster: {asked}")
            given, told = without_pods(given, local=asked.run is not None)
            report.note(told)
            idle = "" if wait else obstacle(asked)
            carry_out(asked.client, wanted, given, report, within=None if wait is False else timeout, obstacle=idle)


def catalog(
    kind: Annotated[str, typer.Argument(help="Kind of provider (default: all).", show_default=False)] = "",
    output: Output = Format.text,
    as_json: Json = False,
) -> None:
    """List the providers that are known by name, and where each comes from."""
    from shared.components.errors import ComponentsError

    from .known import entries
    from .requests import kind_named

    with failures(ComponentsError):
        found = list(entries(kind_named(kind) if kind else None))
    if as_json or output is Format.json:
        typer.echo(json.dumps(found, indent=2))
        return
    for one in found:
        out.print(f"{one['kind']:<25} {one['name']:<26} {one['url']}", markup=False)


def list_(
    output: Output = Format.text,
    as_json: Json = False,
    directory: RunDir = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """List the providers of a cluster: what is installed, what is asked for, and why one is not ready."""
    from .standing import providers, standing, table

    with failures(), management(directory, kubeconfig, context) as asked:
        found = [standing(provider) for provider in providers(asked.client)]
    if as_json or output is Format.json:
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
    as_json: Json = False,
    exit_code: ExitCode = False,
    directory: RunDir = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Show what a version of a provider would change, by dry runs, with what goes of CRDs and comes of rights.

    Without KIND and NAME of all providers. Changes nothing.
    """
    from shared.components.errors import ComponentsError

    from .plan import plan as foresee
    from .plan_text import lines

    with failures(ComponentsError):
        if version and not name:
            raise Failure(
                "--version is of one provider: name that, as in `plan infrastructure docker --version v1.2.3`"
            )
        _check_version(version)
    with failures(ComponentsError), management(directory, kubeconfig, context) as asked:
        as_json = as_json or output is Format.json
        os.environ |= asked.settings
        outlooks = []
        for provider in chosen(asked.client, kind, name):
            outlook = foresee(asked.client, provider, version)
            outlooks.append(outlook)
            for line in () if as_json else lines(outlook):
                out.print(line)
        if as_json:
            typer.echo(json.dumps([outlook.dump() for outlook in outlooks], indent=2))
    told = [outlook.exit_code for outlook in outlooks if exit_code or outlook.obstructed]
    raise typer.Exit(max(told, default=0))


def _check_version(version: str) -> None:
    from shared.components import versions

    if version and versions.try_parse(version) is None:
        raise Failure(f"--version {version!r} is no version such as v1.2.3")


app = typer.Typer(name="provider", help="Providers of Cluster API.", no_args_is_help=True)
app.command()(render.render)
app.command()(init)
app.command("list")(list_)
app.command()(plan)
app.command()(catalog)
app.command()(transfer.adopt)
app.command()(transfer.export)
