"""The command `events`: the Kubernetes events about Cluster API's objects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from ..options import AllNamespaces, FormatOptions, Namespace, TargetOptions
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err, print_either
from ..terminal.text import columns

app = App()


@app.command(examples=["events", "events demo --warnings", "events -A -o json"])
def events(
    *,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of an object (default: all).", show_default=False)
    ] = "",
    namespace: Namespace = None,
    everywhere: AllNamespaces = False,
    warnings: Annotated[bool, typer.Option("--warnings", help="Only warnings.")] = False,
    output: FormatOptions,
    management: TargetOptions,
) -> None:
    """Show the newest 500 events about Clusters, addons, charts, providers and their objects, the newest last."""
    from infra.operations.object_events import list_events, table

    with report_failures(), management.open() as target:
        place = "" if everywhere else target.namespace(namespace)
        found = list_events(target.client, place, name, warnings=warnings)
        if not found and not output.json:
            where = f" in the namespace {place}; `-A` shows all namespaces" if place else ""
            about = f" about objects named {name}" if name else ""
            err.print(f"no {'warnings' if warnings else 'events'}{about}{where}", markup=False)
            return
        lines = columns(table(found, datetime.now(UTC), namespaces=everywhere))
        print_either(found, lines, as_json=output.json)
