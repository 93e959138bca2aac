"""The command `console`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from shared.settings import NAMESPACE

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
    login: Annotated[
        bool,
        typer.Option(
            "--login",
            help="Serve at all addresses of this machine to people with tokens of their own, as in a cluster.",
        ),
    ] = False,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host", help="With --login: host name of the console beside localhost. Repeatable.", show_default=False
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port (default: a free one).", show_default=False)] = 0,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Show this namespace only (default: all).", show_default=False)
    ] = "",
    functions: Annotated[
        str,
        typer.Option(
            "--functions-namespace",
            help="Namespace of the functions, whose logs and dead letters the flow shows "
            f"(default: the pod's own, else {NAMESPACE}).",
            show_default=False,
        ),
    ] = "",
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Offer rollbacks and the like, with the rights of the kubeconfig.")
    ] = False,
    management: TargetOptions,
) -> None:
    """Show Clusters, providers and cluster stacks in a browser on this machine. Only reads by default.

    Prints the address with a token that only you should know. Ctrl-C ends the console.
    """
    from shared.kube.connect import pod_namespace

    functions = functions or pod_namespace() or NAMESPACE
    if login:
        _serve_logins(port, hosts or (), namespace, functions, allow_changes=allow_changes)
        return
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
                _flow(target, functions),
                str(target),
                namespace,
                _actions(target) if allow_changes else None,
            ),
            port,
        ) as address,
    ):
        os.environ |= target.settings  # plans read the object store of the run
        watches.wait_listed(_FIRST_LISTS)
        err.print(f"management cluster: {escape(str(target))}; Ctrl-C ends the console")
        until_signal(ready=lambda: typer.echo(address))


def _flow(target: ManagementCluster, namespace: str) -> Flow:
    """Returns the flow of the local run or of the pods; an object store in the environment outranks the cluster's."""
    from infra.console.flow import Flow, PodLog, RunLog, letters_in_cluster
    from shared.buckets import DEFAULT_STORE, NAMING
    from shared.dead_letters import DeadLetters
    from shared.settings import FOLDER, SETTINGS
    from shared.storage import ObjectStore

    settings = {**SETTINGS, **target.settings}
    is_named = any(settings.get(name) for name in (*NAMING, DEFAULT_STORE, FOLDER))
    named = partial(DeadLetters, ObjectStore.from_env(settings))
    return Flow(
        RunLog(target.run / "logs" / "functions.log") if target.run else PodLog(target.client, namespace),
        named if is_named else partial(letters_in_cluster, target.client, namespace),
    )


def _actions(target: ManagementCluster) -> Actions:
    from infra.console.actions import Actions, Ingress
    from infra.operations.local_runs import running

    run = running(target.run) if target.run else None
    return Actions(target.client, Ingress(run["ingress"], Path(run["token"])) if run else None)


def _serve_logins(port: int, hosts: Sequence[str], namespace: str, functions: str, *, allow_changes: bool) -> None:
    """Serves the console of a cluster, whose own account has no rights."""
    from infra.console.server import serving_logins
    from infra.console.sessions import Sessions
    from shared.kube import connect

    with report_failures():
        clients = connect.token_clients()
        sessions = Sessions(clients, "this cluster", namespace, functions=functions, changes=allow_changes)
        with serving_logins(sessions, "0.0.0.0", port, hosts) as own:  # noqa: S104 - who has no token sees nothing
            until_signal(ready=lambda: err.print(f"port {own}; Ctrl-C ends the console"))
