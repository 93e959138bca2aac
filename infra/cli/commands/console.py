"""The command `console`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from infra.operations.failure import Failure
from shared.settings import NAMESPACE

from ..options import TargetOptions
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err, progress
from ..terminal.signals import until_signal

if TYPE_CHECKING:
    from infra.console.actions import Actions
    from infra.console.flow import Flow
    from infra.console.oidc import Issuer
    from infra.operations.management_cluster import ManagementCluster

app = App()


@dataclass(frozen=True)
class IssuerOptions:
    """The options of a login at an OpenID Connect issuer."""

    issuer_url: Annotated[
        str,
        typer.Option(
            "--oidc-issuer-url",
            help="With --login: people may log in at this issuer, whose ID tokens the API server accepts.",
            show_default=False,
        ),
    ] = ""
    client_id: Annotated[
        str, typer.Option("--oidc-client-id", help="The console's client at the issuer.", show_default=False)
    ] = ""
    secret_file: Annotated[
        Path | None,
        typer.Option(
            "--oidc-client-secret-file", help="File with the secret of the client.", exists=True, dir_okay=False
        ),
    ] = None
    issuer_ca_file: Annotated[
        Path | None,
        typer.Option(
            "--oidc-ca-file",
            help="Certificates (PEM) to trust beside the system's, for the issuer.",
            exists=True,
            dir_okay=False,
        ),
    ] = None
    scopes: Annotated[
        list[str] | None,
        typer.Option("--oidc-scope", help="Scope beside openid. Repeatable (default: email).", show_default=False),
    ] = None

    def issuer(self) -> Issuer | None:
        """Returns the issuer; None without one. Raises `Failure` or `OSError`."""
        from infra.console.oidc import Issuer, Registration

        if not self.issuer_url:
            return None
        if not self.issuer_url.startswith("https://"):
            raise Failure(f"--oidc-issuer-url: {self.issuer_url} is no https URL")
        if not self.client_id:
            raise Failure("--oidc-issuer-url needs --oidc-client-id")
        secret, ca = (file.read_text() if file else "" for file in (self.secret_file, self.issuer_ca_file))
        scopes = tuple(self.scopes or ("email",))
        return Issuer(Registration(self.issuer_url, self.client_id, secret.strip(), ca, scopes))


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
    oidc: IssuerOptions,
    management: TargetOptions,
) -> None:
    """Show Clusters, providers and cluster stacks in a browser on this machine. Only reads by default.

    Prints the address with a token that only you should know. Ctrl-C ends the console.
    """
    from shared.kube.connect import pod_namespace

    functions = functions or pod_namespace() or NAMESPACE
    if login:
        _serve_logins(oidc, port, hosts or (), namespace, functions, allow_changes=allow_changes)
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


def _serve_logins(
    oidc: IssuerOptions, port: int, hosts: Sequence[str], namespace: str, functions: str, *, allow_changes: bool
) -> None:
    """Serves the console of a cluster, whose own account has no rights."""
    from infra.console.server import serving_logins
    from infra.console.sessions import Sessions
    from shared.kube import connect

    with report_failures(OSError):
        issuer = oidc.issuer()
        clients = connect.token_clients()
        sessions = Sessions(clients, "this cluster", namespace, functions=functions, changes=allow_changes)
        address = "0.0.0.0"  # noqa: S104 - who has no token sees nothing
        with serving_logins(sessions, address, port, hosts, issuer) as own:
            until_signal(ready=lambda: err.print(f"port {own}; Ctrl-C ends the console"))
