"""The command `doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from infra.operations.management_cluster import open_management_cluster

from ..options import Context, Kubeconfig
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import out
from . import sources

if TYPE_CHECKING:
    from infra.operations.doctor import CheckResult

app = App()


@app.command(examples=["doctor", "doctor --context management"])
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
