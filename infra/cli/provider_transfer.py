"""The commands that take providers over from other programs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.markup import escape

from .failures import Failure, failures
from .options import DEFAULT_DIR, Dir, Kubeconfig
from .output import Timeline, err
from .provider_options import ConfigSecret, DryRun, Timeout, Wait, management
from .runs import running
from .text import plain


def adopt(
    kind: Annotated[str, typer.Argument(help="Kind of the provider, such as infrastructure.")] = "",
    name: Annotated[str, typer.Argument(help="Name of the provider.")] = "",
    every: Annotated[bool, typer.Option("--all", help="All that are found.")] = False,
    config_secret: ConfigSecret = "",
    pause: Annotated[
        bool, typer.Option("--paused", help="Have the functions leave them alone, to look at `provider plan` first.")
    ] = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: Timeout = 300.0,
    directory: Dir = DEFAULT_DIR,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Go on with the providers that clusterctl, Cluster API Operator or plain manifests have installed.

    Each gets a provider object of the version that runs; then the functions take its objects over.
    """
    from . import manifests, provider_adopt, provider_init
    from .provider_requests import kind_named, secret_named

    with failures():
        if every is bool(kind and name):
            raise Failure("say which: KIND and NAME, or --all; `--all --dry-run` shows what there is")
        secret, client = secret_named(config_secret), management(directory, kubeconfig)
        found = provider_adopt.find(client)
        wanted = list(found.providers) if every else provider_adopt.chosen(found.providers, kind_named(kind), name)
        wanted = provider_adopt.paused(wanted) if pause else wanted
        for note in (*found.unclear, *provider_init.unknown(wanted)):
            err.print(f"[yellow]note:[/yellow] {escape(plain(note))}")
        if dry_run:
            sys.stdout.write(manifests.dump(one.dump(secret) for one in wanted))
            return
        if not wanted:
            raise Failure(
                "no other program has installed a provider; `capi-functions provider init` has some installed"
            )
        if obstacle := provider_adopt.operator(client):
            raise Failure(obstacle)
        timeline = Timeline()
        asked = provider_init.create(client, wanted, secret, timeline.say)
        obstacle = "" if kubeconfig or running(directory) else "no functions run here"
        obstacle = "they are paused" if pause else obstacle
        provider_init.follow(client, asked, timeline, within=timeout if wait else None, obstacle=obstacle)


def register(app: typer.Typer) -> None:
    app.command()(adopt)
