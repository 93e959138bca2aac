"""`capi-functions`: the commands, their options, and what they print.

Exit codes: 0 done and verified, 1 it did not work (the last line says why and what to do), 2 wrong usage,
130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from . import clusters, release
from .failures import Failure, failures
from .options import DEFAULT_DIR, Dir, Hook, Kubeconfig
from .output import Timeline, WaitTimeout, err, out
from .provider import commands as provider
from .runs import detach as start_detached
from .runs import end, kubeconfig_of, refuse_second, settings_of, until_signal

if TYPE_CHECKING:
    from infra.local.stack import Stack

app = typer.Typer(
    name="capi-functions",
    help="Cluster API lifecycle management as stateless functions: run it here, render, capture and replay.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

LONGEST_WAIT = 31.0
"""Seconds: waits up to this are part of the way somewhere, a longer one is for what a person has to mend."""


@app.command()
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
        stack = Stack(directory, releases=releases or _demo_releases(), progress=timeline.say)
        try:
            urls = stack.start()
            timeline.say("up", mark="✔", style="green")
            for name, value in (("kubeconfig", stack.kubeconfig), *urls.__dict__.items()):
                out.print(f"  {name.replace('_', ' '):<13} {escape(str(value))}")
            out.print(f"  try           kubectl --kubeconfig {escape(str(stack.kubeconfig))} get clusters -A")
            out.print(f"Ctrl-C ends it, and so does `capi-functions down -d {escape(str(directory))}`")
            until_signal()
        finally:
            timeline.say("stopping")
            stack.stop()
            timeline.say("stopped", mark="✔")


@app.command()
def down(directory: Dir = DEFAULT_DIR) -> None:
    """End the run in a folder, wherever it was started; its data stay."""
    with failures():
        ended = end(directory)
        out.print(f"stopped the run in {directory}" if ended else f"nothing runs in {directory}")


@app.command()
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

    from .demo import RELEASES
    from .demo.site import DemoError
    from .demo.steps import Demo

    with failures(DemoError), ExitStack() as cleanup:
        if directory is None:
            directory = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="capi-functions-demo-")))
        else:
            refuse_second(directory)
        timeline = Timeline()
        stack = Stack(directory, releases=RELEASES, progress=timeline.say)
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


@app.command()
def render(
    release: Annotated[
        Path, typer.Option(help="Folder of one release, named like its tag.", exists=True, file_okay=False)
    ],
    cluster: Annotated[
        Path, typer.Option(help="File with the Cluster, and what it refers to.", exists=True, dir_okay=False)
    ],
    control_plane: Annotated[Path | None, typer.Option(help="File with the control-plane object.", exists=True)] = None,
    infra: Annotated[Path | None, typer.Option(help="File with the infrastructure object.", exists=True)] = None,
    kube_version: Annotated[str | None, typer.Option(help="Kubernetes version, default: the release's.")] = None,
    hook: Annotated[Hook, typer.Option(help="Of a release with stages: what a cluster has after which ones.")] = (
        Hook.FIRST
    ),
) -> None:
    """Print the addon manifests of a release for a cluster, as multi-document YAML. Needs no cluster."""
    from shared.charts import ChartError
    from shared.releases.naming import InvalidName
    from shared.releases.release import InvalidRelease
    from shared.releases.sources import SourceError

    from .manifests import dump
    from .render import render as render_files

    with failures(ChartError, InvalidName, InvalidRelease, SourceError, OSError, ValueError):
        objects = render_files(
            release, cluster, control_plane=control_plane, infra=infra, kube_version=kube_version, hook=hook
        )
        sys.stdout.write(dump(objects))


@app.command()
def capture(
    folder: Annotated[Path, typer.Argument(help="New folder for the recording.")],
    directory: Dir = DEFAULT_DIR,
    kubeconfig: Kubeconfig = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after so long (default: at Ctrl-C).")] = None,
) -> None:
    """Record the CloudEvents of a cluster, and what its user applied, until Ctrl-C."""
    from events.capture import Capture
    from functions import catalog
    from shared.kube import connect

    with failures(OSError):
        recording = Capture(
            folder, connect.from_kubeconfig(str(kubeconfig_of(directory, kubeconfig))), catalog.triggers()
        )
        recording.start()
        out.print(f"recording into {escape(str(folder))}; Ctrl-C ends it")
        until_signal(seconds)
        result = recording.stop()
        out.print(f"{len(result.events)} events and {len(result.inputs)} inputs in {escape(str(folder))}")


@app.command()
def replay(
    source: Annotated[Path, typer.Argument(help="A capture's folder, or one file of it.", exists=True)],
    to: Annotated[
        str | None, typer.Option(help="Send to this URL (default: to the functions in this process).")
    ] = None,
    directory: Dir = DEFAULT_DIR,
    kubeconfig: Kubeconfig = None,
    inputs: Annotated[bool, typer.Option("--inputs", help="Apply what the user had applied first.")] = False,
    double: Annotated[bool, typer.Option("--double", help="Send everything twice.")] = False,
    shuffle: Annotated[int | None, typer.Option(help="Send in an order drawn from this seed.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds until all must be settled.")] = 120.0,
) -> None:
    """Send recorded events again. Against the same cluster this changes nothing."""
    from events import replay as player
    from events.capture import load
    from events.delivery import InProcessDelivery
    from events.dispatcher import Dispatcher
    from functions import catalog
    from shared.clients import Clients
    from shared.event import EventError
    from shared.kube import connect

    with failures(EventError, OSError):
        recording = load(source)
        if not recording.events and not (inputs and recording.inputs):
            raise Failure(
                f"{source}: there are no events in it; want a file of events, or the folder of a capture, which has "
                "them in events/ (that of the demo is events/captured/demo)"
            )
        out.print(f"{len(recording.events)} events and {len(recording.inputs)} inputs in {escape(str(source))}")
        if inputs or to is None:
            path = kubeconfig_of(directory, kubeconfig)
            client = connect.from_kubeconfig(str(path))
            if inputs:
                player.apply_inputs(client, recording.inputs)
        if to is not None:
            statuses = player.replay_to(to, recording.events)
            out.print(", ".join(f"{count} x {status}" for status, count in sorted(statuses.items())))
            refused = sum(count for status, count in statuses.items() if status >= 300)
            if refused:
                raise Failure(f"{refused} of {len(recording.events)} events were not taken by {to}")
            return
        os.environ |= settings_of(directory) | {"KUBECONFIG": str(path)}
        dispatcher = Dispatcher(catalog.triggers(), InProcessDelivery(catalog.handler, Clients(client)))
        try:
            settled = player.replay(
                recording.events,
                dispatcher,
                double=double,
                shuffle_seed=shuffle,
                timeout=timeout,
                settle_below=LONGEST_WAIT,
            )
            stats = dispatcher.stats
        finally:
            dispatcher.stop()
        answers = ", ".join(f"{count} x {status}" for status, count in sorted(stats.by_status.items()))
        out.print(f"{stats.delivered} calls: {answers}")
        if not settled:
            raise Failure(f"not settled within {timeout:g} s; `--timeout` gives it longer")


@app.command()
def doctor() -> None:
    """Say what this machine has, what is missing, and how to get it."""
    from .doctor import examine

    missing = 0
    for finding in examine():
        mark = {"ok": "[green]✔[/green]", "note": "[yellow]•[/yellow]", "missing": "[red]✘[/red]"}[finding.state]
        out.print(f"{mark} {finding.what:<16} {escape(finding.detail)}")
        missing += finding.state == "missing"
    raise typer.Exit(1 if missing else 0)


clusters.register(app)
app.add_typer(release.app)
app.add_typer(provider.app)


def _demo_releases() -> Path:
    from .demo import RELEASES

    return RELEASES


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


def main() -> None:
    app()


if __name__ == "__main__":
    main()
