"""The command `explain`: what the reason of a condition means, and what to do."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import typer

from infra.operations.failure import Failure

from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import out

app = App()


@app.command(examples=["explain ObjectsNotReady", "explain"])
def explain(
    name: Annotated[
        str,
        typer.Argument(metavar="REASON", help="Reason, as `get` prints it (default: all).", show_default=False),
    ] = "",
) -> None:
    """Explain the reason of a condition: what it means, and what to do."""
    from infra.operations.reasons import REASONS, find

    with report_failures():
        known = sorted({each for reason in REASONS for each in reason.names})
        if not name:
            for each in known:
                out.print(each, markup=False)
            return
        found = find(name)
        if not found:
            close = get_close_matches(name, known, 3)
            hint = f"did you mean {' or '.join(close)}?" if close else "`capi-functions explain` lists the known ones"
            raise Failure(f"no explanation of the reason {name[:100]!r}: {hint}")
        for reason in found:
            of = f"condition {reason.condition} of a {reason.kind}" if reason.condition else f"of a {reason.kind}"
            out.print(f"{', '.join(reason.names)} ({of})", markup=False)
            out.print(f"  means: {reason.meaning_text}", markup=False)
            out.print(f"  to do: {reason.remedy_text}", markup=False)
