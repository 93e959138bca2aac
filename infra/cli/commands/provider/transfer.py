"""Defines the commands `provider adopt` (from other installers) and `provider export` (for other sites)."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from infra.cli.options import FormatOptions, RegistryOptions, TargetOptions
from infra.cli.terminal.failures import report_failures
from infra.cli.terminal.option_groups import App
from infra.cli.terminal.timeline import Timeline
from infra.operations.failure import Failure

from .options import Annotate, ConfigSecret, DryRun, ProviderOptions, WaitOptions, parse_settings

app = App()


@app.command(examples=["provider adopt --all --dry-run", "provider adopt infrastructure docker --paused"])
def adopt(
    *,
    kind: Annotated[str, typer.Argument(help="Kind of the provider, such as infrastructure.")] = "",
    name: Annotated[str, typer.Argument(help="Name of the provider.")] = "",
    all_providers: Annotated[bool, typer.Option("--all", help="Adopt all providers found.")] = False,
    config_secret: ConfigSecret = "",
    annotate: Annotate = None,
    pause: Annotated[
        bool,
        typer.Option("--paused", help="Create the providers paused, to run `provider plan` first."),
    ] = False,
    dry_run: DryRun = False,
    waiting: WaitOptions,
    output: FormatOptions,
    management: TargetOptions,
) -> None:
    """Adopt the providers that clusterctl, Cluster API Operator or plain manifests have installed.

    Creates an object for each provider, with the version that is installed. The functions then adopt the installed
    objects.
    """
    from infra.cli.terminal.provider_report import PrintedReport
    from infra.operations.providers import adopt as adopting
    from infra.operations.providers.catalog_names import notes_on_unknown
    from infra.operations.providers.init import create_and_wait
    from infra.operations.providers.requests import parse_kind

    with report_failures():
        if all_providers is bool(kind and name):
            raise Failure("give either KIND and NAME, or --all; `--all --dry-run` lists the providers found")
        settings = parse_settings(config_secret, annotate, "")
        with management.open() as connection:
            client = connection.client
            report = PrintedReport(as_json=output.json)
            found = adopting.find(client)
            chosen = (
                list(found.providers) if all_providers else adopting.select(found.providers, parse_kind(kind), name)
            )
            chosen = adopting.paused(chosen) if pause else chosen
            operator_hint = adopting.stop_operator_hint(client)
            report.add_notes(
                (*found.unclear, *notes_on_unknown(chosen), *([operator_hint] if operator_hint and dry_run else []))
            )
            if dry_run:
                report.print_manifests([provider.dump(settings) for provider in chosen])
                return
            if not chosen:
                raise Failure("no other program has installed a provider; `capi-functions provider init` installs some")
            if operator_hint:
                raise Failure(operator_hint)
            report.timeline.say(f"management cluster: {connection}")
            obstacle = waiting.obstacle(connection)
            obstacle = "they are paused" if pause else obstacle
            with report.document_at_end():
                create_and_wait(client, chosen, settings, report, within=waiting.within, obstacle=obstacle)


class Form(StrEnum):
    """The form of exported versions in a folder: ConfigMaps, or the files of an OCI artifact."""

    CONFIG_MAPS = "config-maps"
    OCI = "oci"


@app.command(
    examples=[
        "provider export --infrastructure docker --to ./providers",
        "provider export --all --to oci://registry.example.com/providers",
    ]
)
def export(
    *,
    to: Annotated[str, typer.Option(metavar="PLACE", help="Folder or repository to write to.")],
    providers: ProviderOptions,
    all_providers: Annotated[bool, typer.Option("--all", help="Export all providers of the cluster.")] = False,
    form: Annotated[
        Form, typer.Option("--for", help="Write ConfigMaps to the folder, or the files of an OCI artifact.")
    ] = Form.CONFIG_MAPS,
    force: Annotated[bool, typer.Option("--force", help="Replace an artifact that has other files.")] = False,
    registry: RegistryOptions,
    management: TargetOptions,
) -> None:
    """Export versions of providers for a site without internet access: as ConfigMaps, or to its registry.

    Named providers come from the catalog and need no cluster; --all exports the providers of a cluster.

    P is NAME, NAME:VERSION, NAME:NAMESPACE or NAME:NAMESPACE:VERSION.

    PLACE is a folder, oci://REGISTRY/NAME[:TAG], or oci+http://REGISTRY/NAME[:TAG] without TLS.
    """
    from infra.operations.providers import export as exporting
    from infra.operations.providers.status import list_providers
    from shared.components.errors import ComponentsError
    from shared.download import SourceError
    from shared.storage import StorageError

    with report_failures(ComponentsError, SourceError, StorageError, OSError):
        requests = providers.requests()
        if all_providers is bool(requests):
            raise Failure("give either --all for the cluster's providers, or options such as `--infrastructure docker`")
        target, timeline = exporting.parse_target(to), Timeline()
        if all_providers:
            with management.open() as connection:
                os.environ |= connection.settings
                exported = [
                    exporting.from_cluster(connection.client, provider)
                    for provider in list_providers(connection.client)
                ]
                if not exported:
                    raise Failure("the cluster has no providers; name some, such as `--infrastructure docker`")
        else:
            exported = [exporting.from_catalog(request) for request in requests]
        for image in sorted({image for version in exported for image in version.images()}):
            timeline.say(f"needs image {image}")
        if isinstance(target, Path):
            exporting.to_folder(target, exported, layers=form is Form.OCI, progress=timeline.say)
            return
        exporting.to_registry(target, exported, registry.access(), force=force, progress=timeline.say)
