"""The command `demo`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.operations.local_runs import refuse_second
from infra.operations.waiting import WaitTimeout

from ..demo import RELEASES
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err, out
from ..terminal.timeline import Timeline

if TYPE_CHECKING:
    from infra.local.local_run import LocalRun

app = App()


@app.command(examples=["demo", "demo --dir ./demo --capture ./recording"])
def demo(
    directory: Annotated[
        Path | None,
        typer.Option("--dir", "-d", help="Folder for data and logs (default: a temporary one)."),
    ] = None,
    capture_to: Annotated[
        Path | None, typer.Option("--capture", help="Record events and inputs into this folder.")
    ] = None,
) -> None:
    """Run the demo: create a workload cluster with addons, upgrade it twice, delete it."""
    import tempfile
    from contextlib import ExitStack

    from infra.local.local_run import LocalRun

    from ..demo.demo_objects import DemoError
    from ..demo.steps import Demo

    with report_failures(DemoError), ExitStack() as cleanup:
        if directory is None:
            directory = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="capi-functions-demo-")))
        else:
            refuse_second(directory)
        timeline = Timeline()
        # No chart of the demo reads from the cluster.
        local_run = LocalRun(directory, releases=RELEASES, progress=timeline.say, get_helm=False)
        cleanup.callback(local_run.stop)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        timeline.begin("start the management cluster")
        local_run.start()
        timeline.done("management cluster up")
        end_capture = _start_capture(local_run, capture_to) if capture_to else lambda: None
        try:
            Demo(local_run, timeline).run(after_upgrade=end_capture)
        except (DemoError, WaitTimeout):
            err.print(_tail(directory / "logs" / "functions.log"), markup=False)
            raise
        timeline.begin("stop")
        local_run.stop()
        timeline.done("all processes ended")
        timeline.summary()
        out.print("\n[green]The demo succeeded; every step was verified against the API servers.[/green]")


def _start_capture(local_run: LocalRun, folder: Path) -> Callable[[], None]:
    """Starts a recording, and returns the function that ends it."""
    from events.capture import Capture
    from functions import catalog

    recording = Capture(folder, local_run.client, catalog.triggers())
    recording.start()
    recording.wait_synced(10)

    def end() -> None:
        if local_run.services.forwarder is not None:
            local_run.services.forwarder.drain(10, quiet=1.0)  # the last writes cause events too
        recording.stop()

    return end


def _tail(log: Path, lines: int = 30) -> str:
    try:
        return f"the end of {log}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
