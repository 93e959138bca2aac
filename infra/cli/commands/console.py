"""The command `console`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ..options import TargetOptions
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err, progress
from ..terminal.signals import until_signal

if TYPE_CHECKING:
    from infra.console.actions import Actions
    from infra.console.flow import Flow
    from infra.operations.management_cluster import ManagementCluster

app = App()

_FIRST_LISTS = 5.0
"""Seconds to wait for the first lists, so that the first page is complete."""


@app.command(examples=["console", "console --port 8080 --namespace production"])
def console(
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1 (default: a free one).", show_default=False)
    ] = 0,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Show this namespace only (default: all).", show_default=False)
    ] = "",
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Offer rollbacks and the like, with the rights of the kubeconfig.")
    ] = False,
    management: TargetOptions,
) -> None:
    """Show Clusters, providers and cluster stacks in a browser on this machine. Only reads by default.

    Prints the address with a token that only you should know. Ctrl-C ends the console.
    """
    from infra.console.pages import Source
    from infra.console.server import serving
    from infra.console.watches import Watches
    from infra.operations.helm import helm_when_needed

    with (
        report_failures(),
        helm_when_needed(progress),
        management.open() as target,
        Watches(target.client, namespace) as watches,
        serving(
            Source(
                target.client,
                watches,
                str(target),
                namespace,
                _flow(target),
                _actions(target) if allow_changes else None,
            ),
            port,
        ) as address,
    ):
        os.environ |= target.settings  # plans read the object store of the run
        watches.wait_listed(_FIRST_LISTS)
        err.print(f"management cluster: {escape(str(target))}; Ctrl-C ends the console")
        typer.echo(address)
        until_signal()


def _flow(target: ManagementCluster) -> Flow:
    """Returns the flow of the local run, or of the object store in the environment."""
    from infra.console.flow import Flow
    from shared.buckets import DEFAULT_STORE, NAMING
    from shared.dead_letters import DeadLetters
    from shared.settings import FOLDER, SETTINGS
    from shared.storage import ObjectStore

    settings = {**SETTINGS, **target.settings}
    is_named = any(settings.get(name) for name in (*NAMING, DEFAULT_STORE, FOLDER))
    letters = DeadLetters(ObjectStore.from_env(settings)) if is_named else None
    return Flow(target.run / "logs" / "functions.log" if target.run else None, letters)


def _actions(target: ManagementCluster) -> Actions:
    from infra.console.actions import Actions, Ingress
    from infra.operations.local_runs import running

    run = running(target.run) if target.run else None
    return Actions(target.client, Ingress(run["ingress"], Path(run["token"])) if run else None)
