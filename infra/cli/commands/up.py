"""The commands for a local run: up, status, logs, down."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from infra.operations.failure import Failure
from infra.operations.last_options import recall, remember
from infra.operations.local_runs import (
    DEFAULT_DIR,
    addresses,
    crashed,
    end,
    other_cluster_note,
    refuse_second,
    running,
)
from infra.operations.local_runs import detach as start_detached
from infra.operations.management_cluster import open_management_cluster
from infra.operations.run_profiles import nobody_reconciles, profiles_or_default
from shared import profiles

from ..demo import RELEASES
from ..options import (
    KIND,
    ApiServerFlags,
    ComponentsOption,
    Context,
    Dir,
    EtcdFlags,
    Family,
    Format,
    From,
    Kind,
    Kubeconfig,
    ManagerOption,
    Output,
    Profile,
    Yes,
)
from ..terminal.confirm import confirm
from ..terminal.failures import report_failures, usable_folder
from ..terminal.logs import Follow, print_log, print_pod_logs
from ..terminal.option_groups import App
from ..terminal.output import out
from ..terminal.signals import until_signal
from ..terminal.timeline import Timeline

if TYPE_CHECKING:
    from infra.local_control_plane.package import Package
    from infra.operations.providers.local_managers import GivenManagers
    from infra.operations.providers.requests import ProviderRequest

app = App()

_FUNCTIONS = "functions"
"""The log of the functions of a run."""


@app.command(examples=["up --detach", "up --reset --yes", "up --releases ./releases --providers core,kubeadm,docker"])
def up(
    directory: Dir = DEFAULT_DIR,
    releases: Annotated[
        Path | None,
        typer.Option(
            help="Folder with cluster-stack releases (default: as at the last start, at first the demo's).",
            exists=True,
        ),
    ] = None,
    profile: Profile = "",
    providers: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Install these Cluster API providers, and run their managers as processes: core, kubeadm, docker, and "
            "the providers of --manager.",
            show_default=False,
        ),
    ] = "",
    manager: ManagerOption = None,
    components: ComponentsOption = None,
    kind: Kind = False,
    reset: Annotated[
        bool, typer.Option("--reset", help="First delete the data of earlier runs in the folder, after a confirmation.")
    ] = False,
    yes: Yes = False,
    detach: Annotated[bool, typer.Option("--detach", help="Return once the run is up; `down` ends it.")] = False,
    package: From = None,
    ip_family: Family = None,
    api_server_flag: ApiServerFlags = None,
    etcd_flag: EtcdFlags = None,
) -> None:
    """Run a management cluster locally: API server, CRDs, functions, forwarder. Ctrl-C ends it."""
    from infra.operations.providers import local_managers

    with report_failures(), usable_folder(directory, "--dir names another folder"):
        refuse_second(directory)
        if reset:
            _reset(directory, yes=yes)
        given = local_managers.given_managers(manager or [], components)
        opened = _opened(package) if package else None
        given = given.beside(opened) if opened else given
        wanted = local_managers.parse(providers, given)
        if detach:
            settings = {
                "--releases": releases,
                "--profile": profile,
                "--providers": providers,
                "--components": components,
                "--from": package,
                "--ip-family": ip_family,
            }
            single = [f"{option}={value}" for option, value in settings.items() if value]
            repeated = {"--manager": manager, "--api-server-flag": api_server_flag, "--etcd-flag": etcd_flag}
            several = [f"{option}={text}" for option, texts in repeated.items() for text in texts or []]
            arguments = [*single, *several, *([KIND] if kind else [])]
            state = start_detached(directory, arguments, lambda line: out.print(line, markup=False))
            for name, value in addresses(state).items():
                out.print(f"  {name.replace('_', ' '):<13} {escape(value)}")
            _warn_of_other_cluster(directory)
            return
        from infra.local import kind_clusters
        from infra.local.local_run import LocalRun

        timeline = Timeline()
        if kind:
            timeline.say(f"KINDClusters: containers of {kind_clusters.engine()} for the runtime kind")
        options, recalled = recall(
            directory, {"releases": str(releases.absolute()) if releases else "", "profile": profile}
        )
        for name in recalled:
            timeline.say(f"as at the last start: --{name}={options[name]}")
        downloads = _use_package(opened, wanted, given) if opened else None
        rendered = None if package else local_managers.rendered_components(wanted, given)
        has_core = bool(wanted) or LocalRun.has_managers(directory)
        # By default KINDClusters are also served beside a core, because local runs provide their control planes.
        is_served = kind or not options["profile"]
        chosen = profiles_or_default(options["profile"], beside_core=has_core, kind=is_served)
        local_run = LocalRun(
            directory,
            releases=_folder(options["releases"]),
            progress=timeline.say,
            profiles=profiles.parse(chosen),
            components=downloads or rendered,
            partial_components=rendered is not None,
            ip_family=ip_family or "",
            api_server_flags=api_server_flag or (),
            etcd_flags=etcd_flag or (),
            kind=kind,
        )
        try:
            urls = local_run.start(prepare=lambda: local_managers.install(local_run, wanted, timeline.say, given))
            remember(directory, options)
            if warning := nobody_reconciles(chosen, beside_core=has_core):
                timeline.say(warning, style="yellow")
            timeline.say("up", mark="✔", style="green")
            for name, value in (("kubeconfig", local_run.kubeconfig), *urls.__dict__.items()):
                out.print(f"  {name.replace('_', ' '):<13} {escape(str(value))}")
            out.print(f"  token         {escape(str(local_run.directory / 'token'))}")
            out.print(f"  try           kubectl --kubeconfig {escape(str(local_run.kubeconfig))} get clusters -A")
            _warn_of_other_cluster(directory)
            end = f"Ctrl-C or `capi-functions down -d {escape(str(directory))}` ends the run"
            until_signal(ready=lambda: out.print(end))
        finally:
            timeline.say("stopping")
            local_run.stop()
            timeline.say("stopped", mark="✔")


def _reset(directory: Path, *, yes: bool) -> None:
    """Deletes the data of earlier runs. Raises `Failure` without a confirmation, or `LocalRunError`."""
    from infra.local import local_run

    found = local_run.data_of(directory)
    if found and not yes:
        names = ", ".join(path.name for path in found)
        confirm(f"Delete the data of earlier runs in {directory.absolute()}, with all their objects ({names})?")
    local_run.reset(directory)
    if found:
        out.print(f"deleted the data of earlier runs in {directory}", markup=False)


def _warn_of_other_cluster(directory: Path) -> None:
    if note := other_cluster_note(directory / "management.kubeconfig"):
        out.print(f"[yellow]note:[/yellow] {escape(note)}")


def _folder(releases: str) -> Path:
    """Returns the folder of releases, by default the demo's. Raises `Failure`."""
    if releases and not Path(releases).is_dir():
        raise Failure(f"{releases}, the folder of releases of the last start, does not exist; --releases names another")
    return Path(releases) if releases else RELEASES


def _opened(file: Path) -> Package:
    """Returns an unpacked package. Raises `BinaryNotFound` if it is damaged."""
    from infra.local_control_plane.package import opened

    return opened(file, progress=Timeline().say)


def _use_package(package: Package, providers: Sequence[ProviderRequest], given: GivenManagers) -> Path | None:
    """Makes this process and its children use a package's executables. Returns the folder of its components, if any.

    Raises `BinaryNotFound` if the package was changed, or has no managers for these providers.
    """
    from infra.local_control_plane.binaries import EXECUTABLES, VARIABLES
    from infra.operations.providers import local_managers

    # All are checked: providers of a former start, and those that are created later, have managers, too.
    package.executables({*EXECUTABLES, "helm", *local_managers.programs(providers, given), *package.programs})
    os.environ["KUBEBUILDER_ASSETS"] = str(package.bin)
    for variable in VARIABLES.values():  # they would win over the package
        os.environ.pop(variable, None)
    return package.components if package.components.is_dir() else None


@app.command(examples=["status", "status -o json"])
def status(directory: Dir = DEFAULT_DIR, output: Output = Format.text) -> None:
    """Print whether the run in a folder is up, and its addresses. The exit code is 1 if it is not up."""
    state = running(directory)
    if output is Format.json:
        typer.echo(json.dumps({"up": state is not None, **addresses(state or {})}, indent=2))
    elif state is not None:
        out.print(f"the run in {directory} is up (process {state['pid']})", markup=False)
        for name, value in addresses(state).items():
            out.print(f"  {name.replace('_', ' '):<13} {value}", markup=False)
    else:
        what = f"the run in {directory} has crashed" if crashed(directory) else f"no run in {directory}"
        out.print(f"{what}; `capi-functions up -d {directory}` starts it", markup=False)
    raise typer.Exit(0 if state else 1)


@app.command(examples=["down"])
def down(directory: Dir = DEFAULT_DIR) -> None:
    """End the run in a folder, which keeps its data."""
    with report_failures():
        if state := running(directory):
            out.print(f"ending process {state['pid']}", markup=False)
        ended = end(directory)
        out.print(f"stopped the run in {directory}" if ended else f"no run in {directory}")


@app.command(
    examples=["logs --follow", "logs addon_apply --cluster demo", "logs up", "logs --context management --cluster demo"]
)
def logs(
    *,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A function, `functions` for all, or of a run: `up` (with --detach) or a manager."
        ),
    ] = _FUNCTIONS,
    cluster: Annotated[
        str,
        typer.Option(metavar="[NAMESPACE/]NAME", help="Only the lines about this Cluster.", show_default=False),
    ] = "",
    follow: Follow = False,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the pods (default: all).", show_default=False)
    ] = "",
    directory: Dir = DEFAULT_DIR,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Print the log of functions: of the run in a folder, which may have ended, or of the pods in a cluster.

    With --kubeconfig or --context it is the log of the pods, of each container the newest 1000 lines.
    """
    from functions import catalog
    from infra.operations.log_lines import Filter, PodLogs

    function = name.replace("-", "_")
    is_function = function in catalog.names()
    selected = Filter(function if is_function else "", cluster)
    with report_failures():
        if kubeconfig is None and not context:
            file = _FUNCTIONS if is_function else name
            print_log(directory / "logs", file, follow=follow, selected=selected)
            return
        if not is_function and name != _FUNCTIONS:
            raise Failure(f"{name} is not a function; there are: {', '.join(catalog.names())}")
        with open_management_cluster(None, kubeconfig, context) as target:
            print_pod_logs(PodLogs(target.client, namespace), follow=follow, selected=selected)
