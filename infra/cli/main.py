"""`capi-functions`: the commands, their options, and what they print.

Exit codes: 0 done and verified, 1 it did not work (the last line says why and what to do), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.markup import escape

from .output import Timeline, WaitTimeout, err, out

app = typer.Typer(
    name="capi-functions",
    help="Cluster API lifecycle management as stateless functions: run it here, render, capture and replay.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Dir = Annotated[Path, typer.Option("--dir", "-d", help="Folder of the run: data, logs, kubeconfig.")]
DEFAULT_DIR = Path(".capi-functions")


@app.command()
def up(
    directory: Dir = DEFAULT_DIR,
    releases: Annotated[
        Path | None, typer.Option(help="Folder that releases are fetched from (default: the demo's).", exists=True)
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return once it is up; end it with `down`.")] = False,
) -> None:
    """Run a management cluster here: API server, CRDs, object store, functions, forwarder. Ctrl-C stops all."""
    with _failures():
        _refuse_second(directory)
        if detach:
            _detach(directory, releases)
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
            _until_signal()
        finally:
            timeline.say("stopping")
            stack.stop()
            timeline.say("stopped", mark="✔")


@app.command()
def down(directory: Dir = DEFAULT_DIR) -> None:
    """End the run in a folder, wherever it was started; its data stay."""
    with _failures():
        state = _running(directory)
        if state is None:
            out.print(f"nothing runs in {directory}")
            return
        os.kill(state["pid"], signal.SIGTERM)
        deadline = time.monotonic() + 60
        while _running(directory) is not None:
            if time.monotonic() > deadline:
                raise _Failure(f"process {state['pid']} has not ended within 60 s; its log is in {directory}/logs")
            time.sleep(0.1)
        out.print(f"stopped the run in {directory}")


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

    from .demo import RELEASES, Demo, DemoError

    with _failures(DemoError), ExitStack() as cleanup:
        if directory is None:
            directory = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="capi-functions-demo-")))
        else:
            _refuse_second(directory)
        timeline = Timeline()
        stack = Stack(directory, releases=RELEASES, progress=timeline.say)
        cleanup.callback(stack.stop)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        timeline.begin("start the management cluster")
        stack.start()
        timeline.done("management cluster up")
        recording = _start_capture(stack, capture_to) if capture_to else None
        try:
            Demo(stack, timeline).run(after_upgrade=recording.stop if recording else lambda: None)
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
    cluster: Annotated[Path, typer.Option(help="File with the Cluster.", exists=True, dir_okay=False)],
    control_plane: Annotated[Path | None, typer.Option(help="File with the control-plane object.", exists=True)] = None,
    infra: Annotated[Path | None, typer.Option(help="File with the infrastructure object.", exists=True)] = None,
    kube_version: Annotated[str | None, typer.Option(help="Kubernetes version, default: the release's.")] = None,
) -> None:
    """Print the addon manifests of a release for a cluster, as multi-document YAML. Needs no cluster."""
    from shared.charts import ChartError
    from shared.releases.naming import InvalidName
    from shared.releases.release import InvalidRelease

    from .render import render as render_files

    with _failures(ChartError, InvalidName, InvalidRelease, OSError, ValueError, KeyError):
        objects = render_files(release, cluster, control_plane=control_plane, infra=infra, kube_version=kube_version)
        sys.stdout.write(yaml.safe_dump_all(objects, sort_keys=False))


def _demo_releases() -> Path:
    from .demo import RELEASES

    return RELEASES


# -- the run in a folder ---------------------------------------------------------------------------------------


def _running(directory: Path) -> dict[str, str | int] | None:  # type: ignore[type-arg]
    """The state of the run in `directory`, if its process lives."""
    try:
        state: dict[str, str | int] = json.loads((directory / "up.json").read_text())
        os.kill(int(state["pid"]), 0)
    except (OSError, ValueError, KeyError):
        return None
    return state


def _refuse_second(directory: Path) -> None:
    state = _running(directory)
    if state is not None:
        raise _Failure(
            f"process {state['pid']} runs in {directory} already; `capi-functions down -d {directory}` ends it"
        )


def _detach(directory: Path, releases: Path | None) -> None:
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    log = directory / "logs" / "up.log"
    arguments = [sys.executable, "-m", "infra.cli.main", "up", "--dir", str(directory)]
    if releases is not None:
        arguments += ["--releases", str(releases)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    shown = 0
    while (state := _running(directory)) is None or state["pid"] != process.pid:
        lines = log.read_text(errors="replace").splitlines()
        for line in lines[shown:]:
            out.print(line, markup=False)
        shown = len(lines)
        if process.poll() is not None:
            raise _Failure(f"it did not come up; the whole log is {log}")
        time.sleep(0.1)
    for name, value in state.items():
        out.print(f"  {name.replace('_', ' '):<13} {escape(str(value))}")


def _until_signal() -> None:
    stop = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    signal.sigwait(stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stop)


def _tail(log: Path, lines: int = 30) -> str:
    try:
        return f"the end of {log}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


# -- failures --------------------------------------------------------------------------------------------------


class _Failure(Exception):
    """Something the user can act on; the message is all that is shown."""


@contextmanager
def _failures(*expected: type[Exception]) -> Iterator[None]:
    """Expected failures end with one line and exit code 1 instead of a trace."""
    from infra.control_plane import ControlPlaneError
    from infra.control_plane.binaries import BinaryNotFound
    from infra.local.stack import StackError
    from shared.kube import ApiError

    known = (_Failure, WaitTimeout, StackError, ControlPlaneError, BinaryNotFound, ApiError, *expected)
    try:
        yield
    except known as error:
        err.print(f"[red]error:[/red] {escape(str(error))}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def main() -> None:
    app()


if __name__ == "__main__":
    main()
