"""The commands about the addons of one cluster: plan, describe, rollback."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer

from .failures import failures
from .options import DEFAULT_DIR, ClusterName, Dir, Format, Kubeconfig, Namespace, Output
from .output import out
from .runs import kubeconfig_of, settings_of

Release = Annotated[
    str | None,
    typer.Option(help="Tag or folder of the release (default: that of the Cluster's class).", show_default=False),
]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="Exit with 3 if it would change something, 4 if it would not get through.")
]


def plan(
    cluster: ClusterName,
    namespace: Namespace = "default",
    release: Release = None,
    output: Output = Format.text,
    exit_code: ExitCode = False,
    directory: Dir = DEFAULT_DIR,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what a release would change in a cluster, by dry runs. Changes nothing."""
    from shared.kube import Key, connect

    from . import plan as planning
    from . import plan_text

    with failures():
        os.environ |= settings_of(directory)
        management = connect.from_kubeconfig(str(kubeconfig_of(directory, kubeconfig)))
        forecast = planning.plan(management, Key(namespace, cluster), release)
        if output is Format.json:
            typer.echo(json.dumps(forecast.dump(), indent=2))
        else:
            for line in plan_text.lines(forecast):
                out.print(line)
    if exit_code:
        raise typer.Exit(planning.exit_code(forecast))


def register(app: typer.Typer) -> None:
    for command in (plan,):
        app.command()(command)
