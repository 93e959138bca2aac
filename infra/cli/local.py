"""The commands that run everything here: up, down, demo."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from .demo import RELEASES
from .failures import failures
from .options import DEFAULT_DIR, Dir
from .output import Timeline, WaitTimeout, err, out
from .runs import detach as start_detached
from .runs import end, note_other_cluster, refuse_second, until_signal

if TYPE_CHECKING:
    from infra.local.stack import Stack


def up(
    directory: Dir = DEFAULT_DIR,
    releases: Annotated[
        Path | None, typer.Option(help="Folder that releases are fetched from (default: the demo's).", exists=True)
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return once it is up; end it with `down`.")] = False,
) -> None:
    """Run a management cluster here: API server, CRDs, object store, functions, forwarder. Ctrl-C stops all."""
    with failures():
        refuse_second(directory)
        if detach:
            start_detached(directory, releases)
            return
        from infra.local.stack import Stack

        timeline = Timeline()
        stack = Stack(directory, releases=releases or RELEASES, progress=timeline.say)
        try:
            urls = stack.start()
            timeline.say("up", mark="✔", style="green")
            for name, value in (("kubeconfig", stack.kubeconfig), *urls.__dict__.items()):
                out.print(f"  {name.replace('_', ' '):<13} {escape(str(value))}")
            out.print(f"  try           kubectl --kubeconfig {escape(str(stack.kubeconfig))} get clusters -A")
            note_other_cluster(directory / "management.kubeconfig")
            out.print(f"Ctrl-C ends it, and so does `capi-functions down -d {escape(str(directory))}`")
            until_signal()
        finally:
            timeline.say("stopping")
            stack.stop()
            timeline.say("stopped", mark="✔")


def down(directory: Dir = DEFAULT_DIR) -> None:
    """End the run in a folder, wherever it was started; its data stay."""
    with failures():
        ended = end(directory)
        out.print(f"stopped the run in {directory}" if ended else f"nothing runs in {directory}")


def demo(
    directory: Annotated[
        Path | None,
        typer.Option("--dir", "-d", help="Keep the run's data and logs here (default: a temporary folder)."),
    ] = None,
    capture_to: Annotated[
        Path | None, typer.Option("--capture", help="Record the run's events and inputs into this folder.")
    ] = None,
) -> None:
    """Show the main job: a workload cluster comes up, gets its addons, is upgraded twice and deleted again."""
    import tempfile
    from contextlib import ExitStack

    from infra.local.stack import Stack

    from .demo.site import DemoError
    from .demo.steps import Demo

    with failures(DemoError), ExitStack() as cleanup:
        if directory is None:
            directory = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="capi-functions-demo-")))
        else:
            refuse_second(directory)
        timeline = Timeline()
        # No chart of the demo asks about the cluster.
        stack = Stack(directory, releases=RELEASES, progress=timeline.say, get_helm=False)
        cleanup.callback(stack.stop)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        timeline.begin("start the management cluster")
        stack.start()
        timeline.done("management cluster up")
        end_capture = _start_capture(stack, capture_to) if capture_to else lambda: None
        try:
            Demo(stack, timeline).run(after_upgrade=end_capture)
        except (DemoError, WaitTimeout):
            err.print(_tail(directory / "logs" / "functions.log"), markup=False)
            raise
        timeline.begin("stop")
        stack.stop()
        timeline.done("all processes ended")
        timeline.summary()
        out.print("\n[green]The demo went through, every step was verified against the API servers.[/green]")


def _start_capture(stack: Stack, folder: Path) -> Callable[[], None]:
    """Returns what ends it."""
    from events.capture import Capture
    from functions import catalog

    recording = Capture(folder, stack.client, catalog.triggers())
    recording.start()
    recording.wait_synced(10)

    def end() -> None:
        if stack.forwarder is not None:
            stack.forwarder.drain(10, quiet=1.0)  # the last writes come back as events, too
        recording.stop()

    return end


def _tail(log: Path, lines: int = 30) -> str:
    try:
        return f"the end of {log}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def register(app: typer.Typer) -> None:
    for command in (up, down, demo):
        app.command()(command)
