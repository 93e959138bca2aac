"""The program `capi-functions` and its commands.

Exit codes: 0 success, 1 failure (the last line says why, and what to do), 2 wrong usage, 3 a plan would change
something (with --exit-code), 4 a plan would fail, 130 interrupted.
"""

from __future__ import annotations

from typing import Annotated

import typer

from infra import version

from .commands import (
    addons,
    bench,
    clusters,
    console,
    dead_letters,
    demo,
    describe,
    doctor,
    events,
    explain,
    get,
    local,
    plan,
    recordings,
    release,
    resync,
    rollout,
    run,
    sources,
    up,
    wait,
)
from .commands.provider import group as provider
from .terminal.option_groups import App


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version.current())
        raise typer.Exit


app = App(
    name="capi-functions",
    help="Run Cluster API lifecycle functions locally, plan and roll back addons, manage providers and releases.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
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


for module in (
    up,
    demo,
    run,
    get,
    describe,
    wait,
    resync,
    events,
    explain,
    clusters,
    plan,
    rollout,
    addons,
    recordings,
    sources,
    dead_letters,
    console,
    doctor,
    local,
    provider,
    release,
    bench,
):
    app.add_typer(module.app)


def main() -> None:
    """Runs the command of the command line."""
    app()


if __name__ == "__main__":
    main()
