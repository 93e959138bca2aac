"""The commands for local runs: up, down, demo."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from shared import profiles

from .demo import RELEASES
from .failures import report_failures
from .options import DEFAULT_DIR, Dir, Family, From, Profile
from .output import Timeline, WaitTimeout, err, out
from .run import BESIDE_CORE
from .runs import detach as start_detached
from .runs import end, refuse_second, until_signal, warn_of_other_cluster

if TYPE_CHECKING:
    from infra.local.local_run import LocalRun

    from .provider.requests import ProviderRequest


def up(
    directory: Dir = DEFAULT_DIR,
    releases: Annotated[
        Path | None, typer.Option(help="Folder with cluster-stack releases (default: those of the demo).", exists=True)
    ] = None,
    profile: Profile = "",
    providers: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Install these Cluster API providers, and run their managers as processes: core, kubeadm, docker.",
            show_default=False,
        ),
    ] = "",
    detach: Annotated[bool, typer.Option("--detach", help="Return once the run is up; `down` ends it.")] = False,
    package: From = None,
    ip_family: Family = None,
) -> None:
    """Run a management cluster locally: API server, CRDs, object store, functions, forwarder. Ctrl-C ends it."""
    from .provider import local_managers

    with report_failures():
        refuse_second(directory)
        wanted = local_managers.parse(providers)
        if detach:
            given = {
                "--releases": releases,
                "--profile": profile,
                "--providers": providers,
                "--from": package,
                "--ip-family": ip_family,
            }
            start_detached(directory, [f"{option}={value}" for option, value in given.items() if value])
            return
        from infra.local.local_run import LocalRun

        timeline = Timeline()
        components = _use_package(package, wanted, timeline.say) if package else None
        chosen = profile or (BESIDE_CORE if wanted or LocalRun.has_managers(directory) else "all")
        local_run = LocalRun(
            directory,
            releases=releases or RELEASES,
            progress=timeline.say,
            profiles=profiles.parse(chosen),
            components=components,
            ip_family=ip_family or "",
        )
        try:
            urls = local_run.start(prepare=lambda: local_managers.install(local_run, wanted, timeline.say))
            timeline.say("up", mark="✔", style="green")
            for name, value in (("kubeconfig", local_run.kubeconfig), *urls.__dict__.items()):
                out.print(f"  {name.replace('_', ' '):<13} {escape(str(value))}")
            out.print(f"  try           kubectl --kubeconfig {escape(str(local_run.kubeconfig))} get clusters -A")
            warn_of_other_cluster(directory / "management.kubeconfig")
            out.print(f"Ctrl-C or `capi-functions down -d {escape(str(directory))}` ends the run")
            until_signal()
        finally:
            timeline.say("stopping")
            local_run.stop()
            timeline.say("stopped", mark="✔")


def _use_package(file: Path, providers: Sequence[ProviderRequest], say: Callable[[str], None]) -> Path | None:
    """Makes this process and its children use a package's executables. Returns the folder of its components, if any.

    Raises `BinaryNotFound` if the package is damaged, or has no managers for these providers.
    """
    from infra.local_control_plane.binaries import EXECUTABLES
    from infra.local_control_plane.package import opened

    from .provider import local_managers

    package = opened(file, progress=say)
    # All are checked: providers of a former start, and those that are created later, have managers, too.
    package.executables({*EXECUTABLES, "helm", *local_managers.programs(providers), *package.programs})
    os.environ["KUBEBUILDER_ASSETS"] = str(package.bin)
    return package.components if package.components.is_dir() else None


def down(directory: Dir = DEFAULT_DIR) -> None:
    """End the run in a folder, which keeps its data."""
    with report_failures():
        ended = end(directory)
        out.print(f"stopped the run in {directory}" if ended else f"no run in {directory}")


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

    from .demo.demo_objects import DemoError
    from .demo.steps import Demo

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


def register(app: typer.Typer) -> None:
    """Adds up, down and demo to `app`."""
    for command in (up, down, demo):
        app.command()(command)
