"""The program `capi-functions` and its commands.

Exit codes: 0 success, 1 failure (the last line says why, and what to do), 2 wrong usage, 3 a plan would change
something (with --exit-code), 4 a plan would fail, 130 interrupted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from infra import version
from infra.operations.management_cluster import open_management_cluster

from .commands import addons, bench, clusters, dead_letters, demo, local, recordings, release, run, sources, up
from .commands.provider import group as provider
from .options import Context, Kubeconfig
from .terminal.failures import report_failures
from .terminal.option_groups import App
from .terminal.output import out

if TYPE_CHECKING:
    from infra.operations.doctor import CheckResult


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version.current())
        raise typer.Exit


app = App(
    name="capi-functions",
    help="Run Cluster API lifecycle functions locally, plan and roll back addons, manage providers and releases.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and exit."),
    ] = False,
) -> None:
    """Declares the options of the program itself."""


def doctor(kubeconfig: Kubeconfig = None, context: Context = "") -> None:
    """Check what local runs need on this machine: what is there, what is missing, and how to get it.

    With --kubeconfig or --context also checks Knative's event sources in that cluster.
    """
    from infra.operations.doctor import examine

    def is_missing(finding: CheckResult) -> bool:
        mark = {"ok": "[green]✔[/green]", "note": "[yellow]•[/yellow]", "missing": "[red]✘[/red]"}[finding.state]
        out.print(f"{mark} {finding.what:<16} {escape(finding.detail)}")
        return finding.state == "missing"

    missing = sum(map(is_missing, examine()))  # printed first, because the cluster may not answer
    with report_failures():
        if kubeconfig is not None or context:
            with open_management_cluster(None, kubeconfig, context) as target:
                missing += is_missing(sources.examine(target.client))
    raise typer.Exit(1 if missing else 0)


up.register(app)
app.command()(demo.demo)
run.register(app)
app.command()(clusters.render)
recordings.register(app)
app.add_typer(dead_letters.app)
app.command()(doctor)
clusters.register(app)
addons.register(app)
sources.register(app)
app.add_typer(local.app)
app.add_typer(release.app)
app.add_typer(provider.app)
app.add_typer(bench.app)


def main() -> None:
    """Runs the command of the command line."""
    app()


if __name__ == "__main__":
    main()
