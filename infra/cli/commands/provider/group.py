"""The commands `provider init`, `list`, `plan` and `catalog`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from infra.cli.options import FormatOptions, TargetOptions
from infra.cli.terminal.failures import report_failures
from infra.cli.terminal.option_groups import App
from infra.cli.terminal.output import out, print_either, progress
from infra.cli.terminal.text import columns
from infra.operations.failure import Failure
from infra.operations.text import plain

from . import delete, render, transfer, upgrade
from .options import (
    Annotate,
    ConfigSecret,
    DryRun,
    ExitCode,
    ProviderOptions,
    TargetNamespace,
    WaitOptions,
    parse_settings,
)

if TYPE_CHECKING:
    from infra.operations.providers.status import ProviderSummary

_HEADINGS = ("KIND", "NAME", "NAMESPACE", "INSTALLED", "WANTED", "CONTRACT", "READY", "REASON")
app = App(name="provider", help="Providers of Cluster API.", no_args_is_help=True)
for module in (render, upgrade, delete, transfer):
    app.add_typer(module.app)


@app.command(
    examples=[
        "provider init --infrastructure docker",
        "provider init --infrastructure aws:v2.9.0 --config-secret aws-variables --dry-run",
    ]
)
def init(
    *,
    providers: ProviderOptions,
    config_secret: ConfigSecret = "",
    annotate: Annotate = None,
    target_namespace: TargetNamespace = "",
    dry_run: DryRun = False,
    waiting: WaitOptions,
    managers: Annotated[
        bool,
        typer.Option(
            "--managers", help="In a local run: run the managers as processes, webhooks included, as `up --providers`."
        ),
    ] = False,
    output: FormatOptions,
    management: TargetOptions,
) -> None:
    """Install providers, by default their newest versions.

    The core provider is added to any provider, kubeadm's providers to an infrastructure provider.

    P is NAME, NAME:VERSION, NAME:NAMESPACE or NAME:NAMESPACE:VERSION.

    Providers that exist are left unchanged. With --dry-run no cluster is needed.
    """
    from infra.cli.terminal.provider_report import PrintedReport
    from infra.operations.providers import local_managers
    from infra.operations.providers.catalog_names import notes_on_unknown, reject_misspelled
    from infra.operations.providers.deployed_functions import annotate_for_no_pods
    from infra.operations.providers.init import create_and_wait
    from infra.operations.providers.requests import complete, manifests

    with report_failures():
        requests = complete(providers.requests())
        if not requests:
            raise Failure("no provider is given: name one, such as `--infrastructure docker`, or `--core cluster-api`")
        given = parse_settings(config_secret, annotate, target_namespace)
        report = PrintedReport(as_json=output.json)
        reject_misspelled(requests)
        report.add_notes(notes_on_unknown(requests))
        if dry_run:
            report.print_manifests(manifests(requests, given))
            return
        with management.open() as connection:
            report.timeline.say(f"management cluster: {connection}")
            create_all = None
            if managers:
                if connection.run is None:
                    raise Failure(f"--managers is for runs of `capi-functions up`, but {connection} is not such a run")
                requests = local_managers.versioned(requests)
                create_all = local_managers.creator(connection.run, connection.settings, report.timeline.say)
            else:
                given, notes = annotate_for_no_pods(given, local=connection.run is not None)
                report.add_notes(notes)
            obstacle = waiting.obstacle(connection)
            with report.document_at_end():
                create_and_wait(
                    connection.client,
                    requests,
                    given,
                    report,
                    within=waiting.within,
                    obstacle=obstacle,
                    create_all=create_all,
                )


@app.command(examples=["provider catalog", "provider catalog infrastructure -o json"])
def catalog(
    *,
    kind: Annotated[str, typer.Argument(help="Kind of provider (default: all).", show_default=False)] = "",
    output: FormatOptions,
) -> None:
    """List the providers in the catalog and their sources."""
    from infra.operations.providers.catalog_names import list_built_in
    from infra.operations.providers.requests import parse_kind
    from shared.components.errors import ComponentsError

    with report_failures(ComponentsError):
        found = list(list_built_in(parse_kind(kind) if kind else None))
    lines = (f"{one['kind']:<25} {one['name']:<26} {one['url']}" for one in found)
    print_either(found, lines, as_json=output.json)


@app.command("list", examples=["provider list"])
def list_(
    *,
    output: FormatOptions,
    management: TargetOptions,
) -> None:
    """List the providers of a cluster: installed and requested version, and why one is not ready."""
    from infra.operations.providers.status import list_providers, status_of

    with report_failures(), management.open() as connection:
        found = [status_of(provider) for provider in list_providers(connection.client)]
    none = "the cluster has no providers; `capi-functions provider init --infrastructure docker` installs some"
    print_either([one.dump() for one in found], format_table(found) if found else [none], as_json=output.json)


@app.command(examples=["provider plan", "provider plan infrastructure docker --version v1.14.1"])
def plan(
    *,
    kind: Annotated[str, typer.Argument(help="Kind of the provider, such as infrastructure, or `all`.")] = "all",
    name: Annotated[str, typer.Argument(help="Name of the provider.", show_default=False)] = "",
    version: Annotated[
        str,
        typer.Option(
            help="The version (default: spec.version if not installed yet, else the newest).", show_default=False
        ),
    ] = "",
    objects: Annotated[
        bool,
        typer.Option("--objects", help="Check, in a control plane, whether stored objects are valid in the new CRDs."),
    ] = False,
    output: FormatOptions,
    exit_code: ExitCode = False,
    management: TargetOptions,
) -> None:
    """Show what a version of a provider would change: objects, removed parts of CRDs, new rights.

    Uses dry runs and changes nothing. Without KIND and NAME for all providers.
    """
    from infra.cli.terminal.provider_plan_text import lines
    from infra.operations.providers.plan import plan_provider, with_stored_objects
    from infra.operations.providers.status import select_providers
    from shared.components.errors import ComponentsError

    with report_failures(ComponentsError):
        if version and not name:
            raise Failure(
                "--version applies to one provider: name it, as in `plan infrastructure docker --version v1.2.3`"
            )
        _check_version(version)
    with report_failures(ComponentsError), management.open() as connection:
        os.environ |= connection.settings
        plans = []
        for provider in select_providers(connection.client, kind, name):
            planned = plan_provider(connection.client, provider, version)
            if objects:
                planned = with_stored_objects(connection.client, planned, progress)
            plans.append(planned)
            for line in () if output.json else lines(planned):
                out.print(line)
        if output.json:
            typer.echo(json.dumps([planned.dump() for planned in plans], indent=2))
    codes = [planned.exit_code for planned in plans if exit_code or planned.obstructed]
    raise typer.Exit(max(codes, default=0))


def format_table(found: Iterable[ProviderSummary]) -> list[str]:
    """Returns the lines of a table; the last column, the reason, is not padded."""
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for one in found:
        why = "" if one.ready == "True" and one.reason == "Ready" else one.why
        cells = (one.kind, one.name, one.namespace, one.installed, one.wanted or "newest", one.contract, one.ready)
        rows.append((*(plain(cell) or "-" for cell in cells), why))
    return columns(rows)


def _check_version(version: str) -> None:
    from shared import semver

    if version and semver.try_parse(version) is None:
        raise Failure(f"--version {version!r} is not a version such as v1.2.3")
