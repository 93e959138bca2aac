"""`capi-functions`: the commands, their options, and what they print.

Exit codes: 0 done and verified, 1 it did not work (the last line says why and what to do), 2 wrong usage,
3 something would change (with --exit-code), 4 it would not get through, 130 interrupted.
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from infra import version

from . import clusters, local, recordings, release
from .output import out
from .provider import commands as provider


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version.current())
        raise typer.Exit


app = typer.Typer(
    name="capi-functions",
    help="Cluster API lifecycle management as stateless functions: run it here, render, capture and replay.",
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


def doctor() -> None:
    """Say what this machine has, what is missing, and how to get it."""
    from .doctor import examine

    missing = 0
    for finding in examine():
        mark = {"ok": "[green]✔[/green]", "note": "[yellow]•[/yellow]", "missing": "[red]✘[/red]"}[finding.state]
        out.print(f"{mark} {finding.what:<16} {escape(finding.detail)}")
        missing += finding.state == "missing"
    raise typer.Exit(1 if missing else 0)


local.register(app)
app.command()(clusters.render)
recordings.register(app)
app.command()(doctor)
clusters.register(app)
app.add_typer(release.app)
app.add_typer(provider.app)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
