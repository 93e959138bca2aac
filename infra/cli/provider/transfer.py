"""The commands that bring providers in from other programs, and out to other sites."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..connection import management
from ..failures import Failure, failures
from ..options import Context, Format, Json, Kubeconfig, Output, RunDir
from ..output import Timeline
from .options import (
    Addon,
    Annotate,
    Bootstrap,
    ConfigSecret,
    ControlPlane,
    Core,
    DryRun,
    Infrastructure,
    Ipam,
    RuntimeExtension,
    Timeout,
    Wait,
    parsed,
    settings,
)


def adopt(
    kind: Annotated[str, typer.Argument(help="Kind of the provider, such as infrastructure.")] = "",
    name: Annotated[str, typer.Argument(help="Name of the provider.")] = "",
    every: Annotated[bool, typer.Option("--all", help="All that are found.")] = False,
    config_secret: ConfigSecret = "",
    annotate: Annotate = None,
    pause: Annotated[
        bool, typer.Option("--paused", help="Have the functions leave them alone, to look at `provider plan` first.")
    ] = False,
    dry_run: DryRun = False,
    wait: Wait = None,
    timeout: Timeout = 300.0,
    output: Output = Format.text,
    as_json: Json = False,
    directory: RunDir = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Go on with the providers that clusterctl, Cluster API Operator or plain manifests have installed.

    Each gets a provider object of the version that runs; then the functions take its objects over.
    """
    from . import adopt as adopting
    from .init import carry_out
    from .known import unknown
    from .report import Report
    from .requests import kind_named
    from .workers import obstacle

    with failures():
        if every is bool(kind and name):
            raise Failure("say which: KIND and NAME, or --all; `--all --dry-run` shows what there is")
        given = settings(config_secret, annotate, "")
        with management(directory, kubeconfig, context) as asked:
            client = asked.client
            report = Report(as_json=as_json or output is Format.json)
            found = adopting.find(client)
            wanted = list(found.providers) if every else adopting.chosen(found.providers, kind_named(kind), name)
            wanted = adopting.paused(wanted) if pause else wanted
            at_work = adopting.operator(client)
            report.note((*found.unclear, *unknown(wanted), *([at_work] if at_work and dry_run else [])))
            if dry_run:
                report.manifests([one.dump(given) for one in wanted])
                return
            if not wanted:
                raise Failure(
                    "no other program has installed a provider; `capi-functions provider init` has some installed"
                )
            if at_work:
                raise Failure(at_work)
            report.timeline.say(f"management cluster: {asked}")
            idle = "" if wait else obstacle(asked)
            idle = "they are paused" if pause else idle
            carry_out(client, wanted, given, report, within=None if wait is False else timeout, obstacle=idle)


class Form(StrEnum):
    """What a site without a way out takes."""

    CONFIG_MAPS = "config-maps"
    OCI = "oci"


def export(
    to: Annotated[str, typer.Option(metavar="PLACE", help="Where to.")],
    core: Core = "",
    bootstrap: Bootstrap = None,
    control_plane: ControlPlane = None,
    infrastructure: Infrastructure = None,
    ipam: Ipam = None,
    runtime_extension: RuntimeExtension = None,
    addon: Addon = None,
    every: Annotated[bool, typer.Option("--all", help="All providers of the cluster, in their versions.")] = False,
    form: Annotated[
        Form, typer.Option("--for", help="In a folder: ConfigMaps to apply, or the files of an OCI artifact.")
    ] = Form.CONFIG_MAPS,
    force: Annotated[bool, typer.Option("--force", help="Replace an artifact that has other files.")] = False,
    username: Annotated[str, typer.Option(help="For the registry.", envvar="OCI_USERNAME")] = "",
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password here, not from $OCI_PASSWORD.")
    ] = False,
    ca_file: Annotated[
        Path | None, typer.Option(help="Certificates (PEM) to trust beside the system's.", exists=True, dir_okay=False)
    ] = None,
    directory: RunDir = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Bring versions of providers to a site without a way out: as ConfigMaps, or into its registry.

    What is named comes from the catalog and needs no cluster; with --all it is what a cluster has.

    P is NAME, NAME:VERSION, NAME:NAMESPACE or NAME:NAMESPACE:VERSION.

    PLACE is a folder, oci://REGISTRY/NAME[:TAG], or oci+http://REGISTRY/NAME[:TAG] without TLS.
    """
    from shared.components.errors import ComponentsError
    from shared.download import SourceError
    from shared.download.access import Access
    from shared.storage import StorageError

    from . import export as exporting
    from .standing import providers

    with failures(ComponentsError, SourceError, StorageError, OSError):
        wanted = parsed(core, bootstrap, control_plane, infrastructure, ipam, runtime_extension, addon)
        if every is bool(wanted):
            raise Failure("say which: --all for what the cluster has, or providers such as `--infrastructure docker`")
        target, timeline = exporting.target(to), Timeline()
        if every:
            with management(directory, kubeconfig, context) as asked:
                os.environ |= asked.settings
                exported = [exporting.installed(asked.client, provider) for provider in providers(asked.client)]
                if not exported:
                    raise Failure("the cluster has no providers; name some, such as `--infrastructure docker`")
        else:
            exported = [exporting.asked_for(one) for one in wanted]
        for image in sorted({image for one in exported for image in one.images()}):
            timeline.say(f"needs image {image}")
        if isinstance(target, Path):
            exporting.to_folder(target, exported, layers=form is Form.OCI, tell=timeline.say)
            return
        password = sys.stdin.readline().rstrip("\r\n") if password_stdin else os.environ.get("OCI_PASSWORD", "")
        access = Access(username=username, password=password, authority=ca_file.read_text() if ca_file else "")
        exporting.to_registry(target, exported, access, force=force, tell=timeline.say)
